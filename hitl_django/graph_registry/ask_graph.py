"""The built-in graph of ``ask()``. Its only node requests a response from a person."""

from __future__ import annotations

from typing import Any, TypedDict

from django.utils.translation import gettext_lazy as _

from hitl_django.engine.constants import END, START
from hitl_django.review_options import review

from .registry import BUILT_IN, register

ASK_GRAPH = f"{BUILT_IN}ask"


class AskInput(TypedDict):
    """The payload, the response schema, and the other arguments of ``review()``."""

    payload: Any
    response_schema: dict[str, Any] | None
    options: dict[str, Any]


class AskOutput(TypedDict, total=False):
    """The resume value of the decision."""

    response: Any


class AskState(AskInput, AskOutput):
    """The state of the graph."""


def ask(state: AskState) -> AskOutput:
    schema, options = state["response_schema"], state["options"]
    return {"response": review(state["payload"], response_schema=schema, **options)}


# Without ``api``, the graph is started by ask() only, which validates the arguments.
@register(ASK_GRAPH, title=_("Direct request"), api=False)
def build_ask_graph() -> Any:
    from hitl_django.engine.graph.state_graph import StateGraph

    graph = StateGraph(AskState, input_schema=AskInput, output_schema=AskOutput)
    return graph.add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
