"""once, interrupts with keys, and changed interrupts."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hitl_django import Command, StateGraph, interrupt, once, transact
from hitl_django.engine.constants import KEYED, RESUME
from hitl_django.engine.errors import InterruptChangedError
from hitl_django.engine.types import RetryPolicy

from .graphs import CONFIG, State, answer, line, log_of, open_interrupts, paused, saved, says


def test_once_called_before_interrupts_runs_once_across_resumes() -> None:
    sent = []

    def send(text: str, *, to: str) -> int:
        sent.append((text, to))
        return len(sent)

    def node(state: State) -> dict[str, Any]:
        number = once("mail", send, "hello", to="me")
        return {"log": [number, interrupt("one"), interrupt("two")]}

    graph = paused(line(a=node))
    answer(graph, "1")
    answer(graph, "2")
    assert (sent, log_of(graph)) == ([("hello", "me")], [1, "1", "2"])


def test_once_runs_once_across_retries_and_rerun_of_failed_run() -> None:
    sent, calls = [], []

    def node(state: State) -> dict[str, Any]:
        once("mail", sent.append, "hello")
        calls.append(1)
        if len(calls) < 4:
            raise ConnectionError
        return {"log": ["done"]}

    policy = RetryPolicy(0.0001, jitter=False, max_attempts=2)
    graph = StateGraph(State).add_node("a", node, retry_policy=policy).add_edge("__start__", "a")
    compiled = saved(graph)
    with pytest.raises(ConnectionError):
        compiled.invoke({"x": 1}, CONFIG)
    assert compiled.invoke(None, CONFIG)["log"] == ["done"]
    assert (sent, len(calls)) == (["hello"], 4)


def test_transact_on_saver_without_transactions_runs_function_once() -> None:
    sent = []

    def node(state: State) -> dict[str, Any]:
        return {"log": [transact("mail", sent.append, "hello"), once("mail", int), interrupt("?")]}

    graph = paused(line(a=node))
    answer(graph, "1")
    assert (sent, log_of(graph)) == (["hello"], [None, None, "1"])


def test_once_whose_function_failed_runs_function_again_in_next_run() -> None:
    calls = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return "sent"

    graph = saved(line(a=lambda state: {"log": [once("mail", flaky)]}))
    with pytest.raises(OSError, match="down"):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(None, CONFIG)["log"] == ["sent"]


def test_once_with_same_key_in_two_tasks_runs_once_per_task() -> None:
    calls = []

    def node(state: State) -> dict[str, Any]:
        for key in ("a", "b", "a"):
            once(key, calls.append, key)
        return {"log": ["done"]}

    graph = line(one=node)
    graph.add_node("two", node).add_edge("one", "two")
    saved(graph).invoke({"x": 1}, CONFIG)
    assert calls == ["a", "b", "a", "b"]


def test_async_once_called_before_interrupt_runs_once_across_resume() -> None:
    sent = []

    async def send(text: str) -> str:
        sent.append(text)
        return "sent"

    async def node(state: State) -> dict[str, Any]:
        return {"log": [await once("mail", send, "hello"), interrupt("q")]}

    graph = saved(line(a=node))
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    asyncio.run(graph.ainvoke(Command(resume="yes"), CONFIG))
    assert (sent, log_of(graph)) == (["hello"], ["sent", "yes"])


def test_once_result_stored_before_node_crash_is_reused_when_node_runs_again() -> None:
    sent, calls = [], []

    def node(state: State) -> dict[str, Any]:
        once("mail", sent.append, "hello")
        calls.append(1)
        if len(calls) == 1:
            raise SystemExit
        return {"log": ["done"]}

    graph = saved(line(a=node))
    with pytest.raises(SystemExit):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(None, CONFIG)["log"] == ["done"]
    assert (sent, len(calls)) == (["hello"], 2)


# Interrupts with keys.


def test_keyed_interrupts_receive_their_responses_after_their_order_changes() -> None:
    order = ["x", "y"]

    def node(state: State) -> dict[str, Any]:
        given = {}
        for key in list(order):
            given[key] = interrupt(f"{key}?", key=key)
        return {"log": [given["x"], given["y"]]}

    graph = paused(line(a=node))
    answer(graph, {open_interrupts(graph)["x?"]: "X"})
    order.reverse()
    graph.invoke(None, CONFIG)
    answer(graph, {open_interrupts(graph)["y?"]: "Y"})
    assert log_of(graph) == ["X", "Y"]


def test_keyed_interrupts_in_asyncio_gather_can_be_answered_in_any_order() -> None:
    async def ask(key: str) -> Any:
        return interrupt(f"{key}?", key=key)

    async def node(state: State) -> dict[str, Any]:
        return {"log": list(await asyncio.gather(ask("x"), ask("y")))}

    graph = saved(line(a=node))
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    ids = open_interrupts(graph)
    assert set(ids) == {"x?", "y?"}
    asyncio.run(graph.ainvoke(Command(resume={ids["y?"]: "Y"}), CONFIG))
    assert set(open_interrupts(graph)) == {"x?"}
    asyncio.run(graph.ainvoke(Command(resume={ids["x?"]: "X"}), CONFIG))
    assert log_of(graph) == ["X", "Y"]


# Changed interrupts.


def changing() -> tuple[Any, list[str]]:
    asked = ["transfer 10"]

    def node(state: State) -> dict[str, Any]:
        return {"log": [interrupt(asked[0])]}

    return node, asked


def test_interrupt_payload_changed_after_response_logs_warning_and_run_finishes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, asked = changing()
    graph = paused(line(a=node))
    asked[0] = "transfer 10000"
    with caplog.at_level(logging.WARNING, "hitl_django"):
        assert answer(graph, "yes")["log"] == ["yes"]
    assert "Node 'a' asked something different after it was answered" in caplog.text


def test_interrupt_changed_after_response_raises_interrupt_changed_error_until_restored() -> None:
    node, asked = changing()
    graph = paused(line(a=node))
    strict = {"configurable": {**CONFIG["configurable"], "on_interrupt_change": "error"}}
    asked[0] = "transfer 10000"
    with pytest.raises(InterruptChangedError, match="asked something different"):
        graph.invoke(Command(resume="yes"), strict)
    assert log_of(graph) == []
    asked[0] = "transfer 10"
    assert graph.invoke(None, strict)["log"] == ["yes"]


def test_interrupt_with_unchanged_payload_logs_no_change_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, _ = changing()
    with caplog.at_level(logging.WARNING, "hitl_django"):
        answer(paused(line(a=node)), "yes")
    assert "asked something different" not in caplog.text


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("again", ["second", "first"])
def test_interrupt_change_warning_compares_payload_with_the_payload_shown_at_response(
    again: str, key: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["first", "second", again, again]

    def node(state: State) -> dict[str, Any]:
        told = interrupt(texts.pop(0), key=key)
        return {"log": [told, interrupt("more", key=key and "more")]}

    graph = paused(line(a=node))
    graph.invoke(None, CONFIG)
    assert list(open_interrupts(graph)) == ["second"]
    with caplog.at_level(logging.WARNING, "hitl_django"):
        answer(graph, "yes")
        assert answer(graph, "and more")["log"] == ["yes", "and more"]
    assert caplog.text.count("asked something different") == 2 * (again == "first")


@pytest.mark.parametrize("key", [None, "k"])
def test_changed_interrupt_is_logged_only_if_its_response_was_valid(
    key: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed attempt has stored the payload for the same response."""
    texts = ["name?", "name?", "age?", "age?"]

    def node(state: State) -> dict[str, Any]:
        text = texts.pop(0)
        told = interrupt(text, key=key, response_schema=int if text == "age?" else None)
        if text == "name?":
            raise ConnectionError
        return {"log": [told]}

    retried = StateGraph(State).add_node("a", node, retry_policy=RetryPolicy(0.0001, jitter=False))
    graph = paused(retried.add_edge("__start__", "a"))
    [task] = graph.get_state(CONFIG).tasks
    for told in ("Ada", 36):
        slot = (RESUME, [told]) if key is None else (KEYED, {key: told})
        graph.saver.put_writes(graph.get_state(CONFIG).config, [slot], task.id)
        caplog.clear()
        outcome = graph.advance(CONFIG)
        assert ("asked something different" in caplog.text) == (told == "Ada")
    assert (outcome.status, log_of(graph)) == ("finished", [36])


@pytest.mark.parametrize("key", [None, "k"])
def test_invoke_at_checkpoint_id_makes_answered_interrupt_of_checkpoint_pending_again(
    key: Any,
) -> None:
    def node(state: State) -> dict[str, Any]:
        raise ValueError(interrupt("q", key=key))

    graph = saved(line(a=says("a"), b=node))
    graph.invoke({"x": 1}, CONFIG)
    discarding = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}
    graph.update_state(discarding, {"x": 2}, as_node="a")
    asked = graph.invoke(None, CONFIG)["__interrupt__"]
    with pytest.raises(ValueError, match="yes"):
        graph.invoke(Command(resume={asked[0].id: "yes"}), CONFIG)
    again = graph.invoke(None, graph.get_state(CONFIG).config)
    assert [pending.value for pending in again["__interrupt__"]] == ["q"]
