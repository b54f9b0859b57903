"""Agents of the articles in the review queue: started, paused, decided and finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl_django import START, StateGraph, decide, interrupt, register, start, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.agents import ToolNode
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run

from .test_chatbot import chatbot_builder
from .test_tool_node import Chat, calling, contents

USER_INPUT = "Could you request assistance for me?"
HUMAN_RESPONSE = "We, the experts are here to help!"

finished: list[str] = []


def delete(path: str) -> str:
    """Delete a file, if a person agrees."""
    if interrupt({"title": f"Delete {path}?", "path": path}):
        return f"{path} is gone"
    return f"{path} is kept"


def look(path: str) -> str:
    """Look at a file."""
    finished.append(path)
    return f"{path} is there"


def deleting_agent() -> StateGraph:
    builder = StateGraph(Chat)
    builder.add_node("tools", ToolNode([delete, look]))
    builder.add_edge(START, "tools")
    return builder


@pytest.fixture
def advance(db: None) -> Iterator[Callable[[], int]]:
    finished.clear()
    register("chatbot")(chatbot_builder)
    register("deleting agent")(deleting_agent)
    with testing.inline() as advance_all:
        yield advance_all
    registry.unregister("chatbot")
    registry.unregister("deleting agent")


def messages_of(run: Run) -> list[Any]:
    graph = registry.get_graph(run.thread.graph).graph.with_saver(DjangoSaver())
    config = {"configurable": {"thread_id": run.thread.thread_id}}
    return graph.get_state(config).values["messages"]


def test_chatbot_run_waits_for_review_and_succeeds_with_the_expert_response(
    advance: Callable[[], int],
) -> None:
    """Follow the article on the main flows, 1.1, with the expert at the queue."""
    started = start("chatbot", {"messages": [{"role": "user", "content": USER_INPUT}]})
    advance()
    run = Run.objects.get(pk=started.id)
    interrupt = Interrupt.objects.get(run=run)
    assert (run.state, interrupt.node) == ("interrupted", "tools")
    assert interrupt.payload == {"query": USER_INPUT}

    decide(interrupt.pk, "respond", {"data": HUMAN_RESPONSE})
    advance()
    run.refresh_from_db()
    assert run.state == "succeeded"
    assert messages_of(run)[-1].content == f"The experts say: {HUMAN_RESPONSE}"


def test_agent_run_with_two_tool_interrupts_accepts_decisions_in_any_order(
    advance: Callable[[], int],
) -> None:
    """Follow "Review tool calls": each call is a question of its own, decided in any order."""
    message = calling(
        ("delete", {"path": "/a"}), ("look", {"path": "/b"}), ("delete", {"path": "/c"})
    )
    started = start("deleting agent", {"messages": [message]})
    advance()
    pending_interrupts = Interrupt.objects.filter(run=started.id)
    first, second = sorted(pending_interrupts, key=lambda interrupt: interrupt.payload["path"])
    assert [first.payload["path"], second.payload["path"]] == ["/a", "/c"]

    decide(second.pk, "approve")
    advance()
    assert Interrupt.objects.get(run=started.id, status="pending").pk == first.pk
    decide(first.pk, "reject")
    advance()
    run = Run.objects.get(pk=started.id)
    assert run.state == "succeeded"
    assert contents({"messages": messages_of(run)}) == ["/a is kept", "/b is there", "/c is gone"]
    assert finished == ["/b"]


def test_agent_run_with_two_decisions_before_resuming_applies_both_decisions(
    advance: Callable[[], int],
) -> None:
    message = calling(("delete", {"path": "/a"}), ("delete", {"path": "/c"}))
    started = start("deleting agent", {"messages": [message]})
    advance()
    for pending in Interrupt.objects.filter(run=started.id):
        decide(pending.pk, "approve" if pending.payload["path"] == "/a" else "reject")
    advance()
    run = Run.objects.get(pk=started.id)
    assert run.state == "succeeded"
    assert contents({"messages": messages_of(run)}) == ["/a is gone", "/c is kept"]
