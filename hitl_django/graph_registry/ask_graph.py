"""The built-in graph of ``ask()``. Its only node creates an interrupt."""

from __future__ import annotations

from typing import Any, TypedDict

from django.utils.translation import gettext_lazy as _

from hitl_django.engine.constants import END, START
from hitl_django.review_options import review

from .registry import BUILT_IN, register

ASK_GRAPH = f"{BUILT_IN}ask"


class AskInput(TypedDict):
    """The input of the graph: payload, response schema, and the other arguments of ``review()``."""

    payload: Any
    response_schema: dict[str, Any] | None
    options: dict[str, Any]


class AskOutput(TypedDict, total=False):
    """The output of the graph: the resume value of the decision."""

    response: Any


class AskState(AskInput, AskOutput):
    """The state of the graph of ``ask()``."""


def ask(state: AskState) -> AskOutput:
    schema, options = state["response_schema"], state["options"]
    return {"response": review(state["payload"], response_schema=schema, **options)}


# Without ``api``, the graph is started by ask() only, which validates the arguments.
@register(ASK_GRAPH, title=_("Direct request"), api=False)
def build_ask_graph() -> Any:
    from hitl_django.engine.graph.state_graph import StateGraph

    graph = StateGraph(AskState, input_schema=AskInput, output_schema=AskOutput)
    return graph.add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
