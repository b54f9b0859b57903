"""Agents of smolagents in a node: tools that interrupt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from smolagents import (
    ChatMessage,
    CodeAgent,
    MessageRole,
    Model,
    MultiStepAgent,
    ToolCallingAgent,
    tool,
)
from typing_extensions import TypedDict

from hitl_django import decide, interrupt, start
from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.graph_registry.registry import register
from hitl_django.services import run_result

from .pending import list_pending

# Tools run on other OS threads, which don't see uncommitted rows.
pytestmark = pytest.mark.django_db(transaction=True)


class State(TypedDict, total=False):
    output: str


@tool
def refund(order: str) -> str:
    """Refund an order.

    Args:
        order: number of the order
    """
    return f"{order} {interrupt({'order': order}, key=order)}"


class ScriptedModel(Model):
    """Model that first makes tool calls and then ends with their results."""

    def generate(self, messages: list[ChatMessage], *args: Any, **options: Any) -> ChatMessage:
        results = [each.content for each in messages if each.role == MessageRole.TOOL_RESPONSE]
        text = str(results[-1][0]["text"]) if results else ""  # type: ignore[index]
        return self.build_message(text.removeprefix("Observation:").strip())

    def build_message(self, results: str) -> ChatMessage:
        calls: list[tuple[str, dict[str, str]]]
        if results:
            calls = [("final_answer", {"answer": results})]
        else:
            calls = [("refund", {"order": order}) for order in ("A-7", "A-8")]
        tool_calls: list[Any] = [
            {"id": f"call-{n}", "type": "function", "function": {"name": name, "arguments": args}}
            for n, (name, args) in enumerate(calls)
        ]
        return ChatMessage(MessageRole.ASSISTANT, "", tool_calls)


class CodeModel(ScriptedModel):
    """Model that writes the same calls as code."""

    def build_message(self, results: str) -> ChatMessage:
        code = "final_answer(refund('A-7') + ', ' + refund('A-8'))"
        return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{code}\n</code>")


def register_agent(build: Callable[[], MultiStepAgent]) -> None:
    def run_agent(state: State) -> State:
        return {"output": str(build().run("Refund them."))}

    graph = StateGraph(State).add_node("agent", run_agent).add_edge(START, "agent")
    register("refunder")(lambda: graph)


def test_each_parallel_tool_call_has_a_separate_interrupt(advance: Callable[[], int]) -> None:
    register_agent(lambda: ToolCallingAgent([refund], ScriptedModel(), verbosity_level=0))
    run = start("refunder", {})
    advance()
    first, second = list_pending(run)
    decide(first.pk, "approve")
    decide(second.pk, "reject")
    advance()
    output = run_result(run.id)["output"]
    assert "A-7 True" in output
    assert "A-8 False" in output


def test_code_agent_without_code_timeout_resumes_after_each_interrupt(
    advance: Callable[[], int],
) -> None:
    options: dict[str, Any] = {"timeout_seconds": None}
    register_agent(
        lambda: CodeAgent([refund], CodeModel(), executor_kwargs=options, verbosity_level=0)
    )
    run = start("refunder", {})
    for _ in range(2):
        advance()
        (pending,) = list_pending(run)
        decide(pending.pk, "approve")
    advance()
    assert run_result(run.id)["output"] == "A-7 True, A-8 True"
