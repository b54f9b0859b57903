"""Error handlers, timeouts and sent timeouts with each saver, sync, async and in the worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from hitl_django import START, Command, StateGraph, services, testing
from hitl_django import interrupt as ask
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import NodeTimeoutError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.types import NodeError, Send
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from tests.engine.graphs import CONFIG, State, log_of

SAVERS = {"memory": InMemorySaver, "django": DjangoSaver}


@pytest.fixture(params=["memory", pytest.param("django", marks=pytest.mark.django_db)])
def saver(request: pytest.FixtureRequest) -> BaseCheckpointSaver:
    return SAVERS[request.param]()


class Gone(BaseException):
    """Error that simulates the end of the process."""


def failing(calls: list[str], handler: Any) -> StateGraph:
    def node(state: State) -> None:
        calls.append("node")
        raise ValueError("no")

    graph = StateGraph(State).add_node("a", node, error_handler=handler)
    return graph.add_edge(START, "a")


def crashing_once(calls: list[str]) -> Any:
    def handler(state: State, error: NodeError) -> dict[str, Any]:
        calls.append("handler")
        if calls.count("handler") == 1:
            raise Gone
        return {"log": [f"{error.node}: {error.error}"]}

    return handler


def test_run_killed_in_error_handler_resumes_at_the_error_handler(
    saver: BaseCheckpointSaver,
) -> None:
    calls: list[str] = []
    graph = failing(calls, crashing_once(calls)).compile(saver)
    with pytest.raises(Gone):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.get_state(CONFIG).tasks[0].error == "ValueError('no')"
    assert graph.invoke(None, CONFIG)["log"] == ["a: no"]
    assert calls == ["node", "handler", "handler"]
    assert graph.get_state(CONFIG).next == ()


def test_async_run_killed_in_error_handler_resumes_at_the_error_handler(
    saver: BaseCheckpointSaver,
) -> None:
    calls: list[str] = []
    graph = failing(calls, crashing_once(calls)).compile(saver)
    with pytest.raises(Gone):
        async_to_sync(graph.ainvoke)({"x": 1}, CONFIG)
    assert async_to_sync(graph.ainvoke)(None, CONFIG)["log"] == ["a: no"]
    assert calls == ["node", "handler", "handler"]


def test_error_handler_does_not_start_if_saver_fails_to_store_the_node_failure(
    saver: BaseCheckpointSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    graph = failing(calls, lambda state: calls.append("handler")).compile(saver)
    store = type(saver).commit

    def refuse(self: Any, commit: Commit) -> None:
        if calls == ["node"]:
            raise OSError("the disk is full")
        store(self, commit)

    with monkeypatch.context() as patch:
        patch.setattr(type(saver), "commit", refuse)
        with pytest.raises(OSError, match="the disk is full"):
            graph.invoke({"x": 1}, CONFIG)
    assert calls == ["node"]
    graph.invoke(None, CONFIG)
    assert calls == ["node", "node", "handler"]


def test_timeout_of_a_send_is_restored_when_graph_is_compiled_again(
    saver: BaseCheckpointSaver,
) -> None:
    async def node(state: State) -> None:
        await asyncio.Event().wait()

    graph = StateGraph(State).add_node("a", node)
    graph.add_conditional_edges(START, lambda state: [Send("a", state, timeout=0.01)], ["a"])
    compiled = graph.compile(saver, interrupt_before=["a"])
    compiled.invoke({"x": 1}, CONFIG)
    with pytest.raises(NodeTimeoutError) as raised:
        graph.compile(saver).invoke(None, CONFIG)
    assert raised.value.run_timeout == 0.01


def test_interrupt_in_error_handler_is_stored_and_resumes_the_handler(
    saver: BaseCheckpointSaver,
) -> None:
    graph = failing([], lambda state: {"log": [ask("and now?")]}).compile(saver)
    graph.invoke({"x": 1}, CONFIG)
    assert [asked.value for asked in graph.get_state(CONFIG).interrupts] == ["and now?"]
    graph.invoke(Command(resume="go on"), CONFIG)
    assert log_of(graph) == ["go on"]


# In the worker.


@pytest.mark.django_db
def test_run_whose_node_failure_is_handled_succeeds_without_error() -> None:
    calls: list[str] = []
    registry.register("handled")(
        lambda: failing(calls, lambda state, error: {"log": [f"{error.error}"]})
    )
    try:
        with testing.inline() as advance:
            info = services.start("handled", {"x": 1})
            advance()
    finally:
        registry.unregister("handled")
    run = Run.objects.get(pk=info.id)
    assert (run.state, run.error) == ("succeeded", "")
    assert calls == ["node"]


@pytest.mark.django_db
def test_decision_on_interrupt_of_error_handler_resumes_the_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []

    def handler(state: State, error: NodeError) -> dict[str, Any]:
        calls.append("handler")
        return {"log": [ask({"title": f"{error.node} failed: {error.error}"})]}

    registry.register("handled")(lambda: failing(calls, handler))
    try:
        with testing.inline() as advance:
            info = services.start("handled", {"x": 1})
            advance()
            interrupt = Interrupt.objects.get(run_id=info.id)
            assert interrupt.title == "a failed: no"
            services.decide(interrupt.pk, "respond", "ignore it")
            advance()
    finally:
        registry.unregister("handled")
    assert Run.objects.get(pk=info.id).state == "succeeded"
    assert calls == ["node", "handler", "handler"]
    assert caplog.text == ""  # the answered interrupt is the one that was raised


@pytest.mark.django_db
def test_retry_after_failed_error_handler_does_not_rerun_the_handled_node() -> None:
    calls: list[str] = []

    def handler(state: State) -> dict[str, Any]:
        calls.append("handler")
        if calls.count("handler") == 1:
            raise OSError("down")
        return {"log": ["handled"]}

    registry.register("handled")(lambda: failing(calls, handler))
    try:
        with testing.inline() as advance:
            info = services.start("handled", {"x": 1})
            advance()
            assert Run.objects.get(pk=info.id).state == "failed"
            services.retry(info.id)
            advance()
    finally:
        registry.unregister("handled")
    assert Run.objects.get(pk=info.id).state == "succeeded"
    assert calls == ["node", "handler", "handler"]
