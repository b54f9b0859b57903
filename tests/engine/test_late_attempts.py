"""Attempts that continue after their timeout, without effect on the next attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import interrupt, once, task
from hitl_django.engine.errors import AttemptTimedOutError
from hitl_django.engine.types import RetryPolicy, TimeoutPolicy

from .crashing import Crash
from .graphs import CONFIG, State, line, log_of
from .test_timeouts import AGAIN, WAYS, Run, ainvoked, for_ever, limited, saved

pytestmark = pytest.mark.usefixtures("leaping")

SAID = (
    "Attempt 1 of node 'a' has timed out: it may no longer call once(), tasks or graphs. "
    "Nothing was called or stored."
)
done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


async def pay() -> None:
    done.append("paid")


@task
async def pay_as_task() -> None:
    done.append("paid")


async def call_once() -> None:
    once("pay", done.append, "paid")


async def call_once_async() -> None:
    await once("pay", pay)


async def call_task() -> None:
    await pay_as_task()


def payer() -> Callable[[], Any]:
    async def node(state: State) -> dict[str, Any]:
        done.append("paid")
        return {}

    graph = line(p=node).compile(checkpointer=True)

    async def call_graph() -> None:
        await graph.ainvoke({"x": 1})

    return call_graph


@WAYS
@pytest.mark.promise("P12")
@pytest.mark.parametrize(
    "act", [call_once, call_once_async, call_task, payer()], ids=["sync", "async", "task", "graph"]
)
def test_once_called_after_its_attempt_timed_out_raises_attempt_timed_out_error(
    run: Run, act: Any
) -> None:
    begun, refused = [], []

    async def node(state: State) -> dict[str, Any]:
        begun.append(1)
        if len(begun) > 1:
            await act()
            return {"log": [f"attempt {len(begun)}"]}
        try:
            return await for_ever(state)
        except asyncio.CancelledError:
            with pytest.raises(AttemptTimedOutError) as raised:
                await act()
            refused.append((str(raised.value), [*done]))
            return {"log": ["late"]}

    graph = saved(limited(node, TimeoutPolicy(idle_timeout=5), retry_policy=AGAIN))
    assert run(graph, {"x": 1})["log"] == ["attempt 2"]
    assert refused == [(SAID, [])]
    assert done == ["paid"]


@WAYS
def test_once_result_arriving_after_attempt_timeout_is_not_stored(run: Run) -> None:
    begun, refused = [], []

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    async def at_once() -> str:
        return "in time"

    async def node(state: State) -> dict[str, Any]:
        begun.append(1)
        if len(begun) > 1:
            return {"log": [await once("it", at_once)]}
        with pytest.raises(AttemptTimedOutError) as raised:
            await once("it", slow)
        refused.append(raised.value.attempt)
        return {}

    graph = saved(limited(node, TimeoutPolicy(idle_timeout=5), retry_policy=AGAIN))
    assert run(graph, {"x": 1})["log"] == ["in time"]
    assert refused == [1]


def test_once_call_of_timed_out_attempt_does_not_replace_result_of_next_attempt() -> None:
    begun: list[int] = []

    async def drive() -> None:
        go_on, tried = asyncio.Event(), asyncio.Event()

        async def node(state: State) -> dict[str, Any]:
            begun.append(1)
            if len(begun) == 1:
                try:
                    await for_ever(state)
                except asyncio.CancelledError:
                    await go_on.wait()
                try:
                    once("other", done.append, "late")
                finally:
                    tried.set()
            once("pay", done.append, "paid")
            if len(begun) == 2:
                go_on.set()
                await tried.wait()
                raise Crash
            return {"log": ["paid once"]}

        graph = saved(limited(node, TimeoutPolicy(idle_timeout=5), retry_policy=AGAIN))
        with pytest.raises(Crash):
            await graph.ainvoke({"x": 1}, CONFIG)
        await graph.ainvoke(None, CONFIG)
        assert (await graph.aget_state(CONFIG)).values["log"] == ["paid once"]

    asyncio.run(drive())
    assert done == ["paid"]
    assert len(begun) == 3


def test_once_results_of_background_task_and_retry_are_both_stored() -> None:
    begun: list[int] = []

    async def drive() -> None:
        go_on = asyncio.Event()
        left: list[asyncio.Task[None]] = []

        async def leave() -> None:
            await go_on.wait()
            once("left", done.append, "left")

        async def node(state: State) -> dict[str, Any]:
            begun.append(1)
            if len(begun) == 1:
                left.append(asyncio.create_task(leave()))
                raise OSError("in time")
            once("pay", done.append, "paid")
            go_on.set()
            await left[0]
            once("left", done.append, "left again")
            if len(begun) == 2:
                raise Crash
            return {"log": ["done"]}

        policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=OSError)
        graph = saved(limited(node, 60, retry_policy=policy))
        with pytest.raises(Crash):
            await graph.ainvoke({"x": 1}, CONFIG)
        await graph.ainvoke(None, CONFIG)
        assert (await graph.aget_state(CONFIG)).values["log"] == ["done"]

    asyncio.run(drive())
    assert done == ["paid", "left"]


def test_once_result_stored_before_attempt_timeout_is_reused_by_next_attempt() -> None:
    begun: list[int] = []

    async def node(state: State) -> dict[str, Any]:
        begun.append(1)
        once("pay", done.append, "paid")
        if len(begun) < 3:
            return await for_ever(state)
        return {"log": [interrupt("sure?")]}

    graph = saved(limited(node, TimeoutPolicy(idle_timeout=5), retry_policy=AGAIN))
    assert ainvoked(graph, {"x": 1})["__interrupt__"]
    assert (done, log_of(graph)) == (["paid"], [])
