"""Timeouts: attempts end in time or fail, and late results have no effect."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hitl_django import START, Command, StateGraph, interrupt, once, task
from hitl_django.engine.drivers import timeouts
from hitl_django.engine.errors import NodeCancelledError, NodeTimeoutError
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.task.node_api import get_runtime, get_stream_writer
from hitl_django.engine.task.runtime import Runtime
from hitl_django.engine.types import RetryPolicy, Send, TimeoutPolicy

from .graphs import CONFIG, State, line, log_of, saved, says, side_by_side

#: Long enough for any machine.
LEAPS = pytest.mark.usefixtures("leaping")
AGAIN = RetryPolicy(initial_interval=0.001, jitter=False)


def invoked(graph: Pregel, value: Any) -> Any:
    return graph.invoke(value, CONFIG)


def ainvoked(graph: Pregel, value: Any) -> Any:
    return asyncio.run(graph.ainvoke(value, CONFIG))


WAYS = pytest.mark.parametrize("run", [invoked, ainvoked])
Run = Callable[..., Any]


async def for_ever(state: State) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {"log": ["never"]}


def limited(node: Any, timeout: Any, **policies: Any) -> StateGraph:
    graph = StateGraph(State).add_node("a", node, timeout=timeout, **policies)
    return graph.add_edge(START, "a")


@WAYS
@pytest.mark.promise("P12")
def test_node_exceeding_run_timeout_fails_with_node_timeout_error(run: Run) -> None:
    with pytest.raises(NodeTimeoutError, match="Node 'a' reached its run timeout") as raised:
        run(saved(limited(for_ever, timedelta(milliseconds=10))), {"x": 1})
    error = raised.value
    assert (error.node, error.kind, error.timeout) == ("a", "run", 0.01)
    assert (error.run_timeout, error.idle_timeout) == (0.01, None)
    assert error.elapsed >= 0.01
    assert not isinstance(error, TimeoutError)


@WAYS
def test_node_with_run_and_idle_timeout_fails_at_the_shorter_timeout(run: Run) -> None:
    policy = TimeoutPolicy(run_timeout=60, idle_timeout=0.01)
    with pytest.raises(NodeTimeoutError, match="idle timeout") as raised:
        run(saved(limited(for_ever, policy)), {"x": 1})
    assert (raised.value.kind, raised.value.timeout, raised.value.run_timeout) == ("idle", 0.01, 60)


@WAYS
@LEAPS
def test_each_node_attempt_gets_the_full_run_timeout(run: Run) -> None:
    attempts: list[int] = []

    async def node(state: State, runtime: Runtime) -> dict[str, Any]:
        assert runtime.execution_info is not None
        attempts.append(runtime.execution_info.node_attempt)
        await asyncio.sleep(0.9)
        return await for_ever(state) if len(attempts) < 3 else {"log": ["in time"]}

    graph = saved(limited(node, 1, retry_policy=AGAIN))
    assert run(graph, {"x": 1})["log"] == ["in time"]
    assert attempts == [1, 2, 3]


def test_timeout_of_zero_negative_or_nan_raises_value_error() -> None:
    for timeout in (0, -1, timedelta(0), float("nan"), TimeoutPolicy(run_timeout=0)):
        with pytest.raises(ValueError, match="run_timeout must be greater than 0"):
            limited(for_ever, timeout)
    with pytest.raises(ValueError, match="idle_timeout must be greater than 0"):
        limited(for_ever, TimeoutPolicy(idle_timeout=0))
    with pytest.raises(ValueError, match="run_timeout must be greater than 0"):
        Send("a", {}, timeout=0)
    with pytest.raises(ValueError, match="run_timeout must be greater than 0"):
        StateGraph(State).set_node_defaults(timeout=0)
    with pytest.raises(ValueError, match="refresh_on must be 'auto' or 'heartbeat'"):
        limited(for_ever, TimeoutPolicy(idle_timeout=1, refresh_on="now"))  # type: ignore[arg-type]
    assert TimeoutPolicy.coerce(TimeoutPolicy()) is None


SYNC = (
    "Node timeouts are only supported for async nodes because sync Python execution cannot be "
    "safely cancelled in-process. Node '{}' is sync."
)


def test_compile_of_sync_node_with_timeout_raises_value_error() -> None:
    with pytest.raises(ValueError) as raised:
        limited(says("a"), 1).compile()
    assert str(raised.value) == SYNC.format("a")
    graph = limited(for_ever, None, error_handler=says("h")).set_node_defaults(timeout=1)
    with pytest.raises(ValueError) as raised:
        graph.compile()
    assert str(raised.value) == SYNC.format("__error_handler__a")


@WAYS
def test_send_with_timeout_to_sync_node_raises_value_error(run: Run) -> None:
    graph = StateGraph(State).add_node("a", says("a"))
    graph.add_conditional_edges(START, lambda state: [Send("a", state, timeout=1)], ["a"])
    with pytest.raises(ValueError) as raised:
        run(saved(graph), {"x": 1})
    assert str(raised.value) == SYNC.format("a")


@WAYS
@pytest.mark.parametrize(("own", "sent"), [(60, 0.01), (None, 0.01), (0.01, None)])
def test_send_timeout_shorter_than_node_timeout_fails_the_node(
    run: Run, own: Any, sent: Any
) -> None:
    graph = StateGraph(State).add_node("a", for_ever, timeout=own)
    graph.add_conditional_edges(START, lambda state: [Send("a", state, timeout=sent)], ["a"])
    with pytest.raises(NodeTimeoutError):
        run(saved(graph), {"x": 1})


@LEAPS
def test_send_timeout_longer_than_node_timeout_replaces_the_node_timeout() -> None:
    async def node(state: State) -> dict[str, Any]:
        await asyncio.sleep(50)
        return {"log": ["in time"]}

    graph = StateGraph(State).add_node("a", node, timeout=0.01)
    graph.add_conditional_edges(START, lambda state: [Send("a", state, timeout=60)], ["a"])
    assert ainvoked(saved(graph), {"x": 1})["log"] == ["in time"]


def test_sends_with_different_timeouts_compare_unequal() -> None:
    one, other = Send("a", 1, timeout=1), Send("a", 1)
    assert one != other
    assert hash(one) != hash(other)
    assert one == Send("a", 1, timeout=timedelta(seconds=1))
    assert "timeout=TimeoutPolicy(run_timeout=1.0" in repr(one)
    assert repr(other) == "Send(node='a', arg=1)"


# Progress.


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of nodes, one for each restart of their idle timeout."""
    found: list[str] = []
    touch = timeouts.AttemptTimer.touch

    def note(watch: timeouts.AttemptTimer) -> None:
        if watch.policy.idle_timeout is not None:
            found.append(watch.context.task.name)
        touch(watch)

    monkeypatch.setattr(timeouts.AttemptTimer, "touch", note)
    return found


def doing(step: Callable[[Runtime], None]) -> Callable[..., Any]:
    async def node(state: State) -> dict[str, Any]:
        step(get_runtime())
        return {"log": ["done"]}

    return node


def beat(runtime: Runtime) -> None:
    runtime.heartbeat()


def beat_elsewhere(runtime: Runtime) -> None:
    thread = threading.Thread(target=runtime.heartbeat)
    thread.start()
    thread.join()


def write(runtime: Runtime) -> None:
    runtime.stream_writer("on it")


def do_once(runtime: Runtime) -> None:
    once("it", str)


def do_nothing(runtime: Runtime) -> None:
    """Report no progress."""


@WAYS
@pytest.mark.parametrize(
    ("step", "auto", "heartbeat"),
    [
        (beat, True, True),
        (beat_elsewhere, True, True),
        (write, True, False),
        (do_once, True, False),
        (do_nothing, False, False),
    ],
)
def test_node_progress_restarts_idle_timeout_according_to_refresh_on(
    run: Run, step: Any, auto: bool, heartbeat: bool, noted: list[str]
) -> None:
    for how, counts in (("auto", auto), ("heartbeat", heartbeat)):
        policy = TimeoutPolicy(idle_timeout=60, refresh_on=how)  # type: ignore[arg-type]
        noted.clear()
        run(saved(limited(doing(step), policy)), {"x": 1})
        assert noted == (["a"] if counts else [])


@WAYS
@pytest.mark.parametrize(("how", "each"), [("auto", 2), ("heartbeat", 0)])
def test_start_and_end_of_called_tasks_restart_idle_timeout_of_calling_node(
    run: Run, how: Any, each: int, noted: list[str]
) -> None:
    @task
    async def step(x: int) -> int:
        return x

    def calling(count: int) -> Any:
        async def node(state: State) -> Any:
            return {"log": [await step(x) for x in range(count)]}

        return node

    def progress(node: Any) -> int:
        noted.clear()
        run(saved(limited(node, TimeoutPolicy(idle_timeout=60, refresh_on=how))), {"x": 1})
        assert set(noted) <= {"a"}
        return len(noted)

    assert progress(calling(3)) == 3 * each
    none, some = (progress(line(n=calling(count)).compile()) for count in (0, 3))
    assert some == none + 3 * each


@WAYS
def test_super_steps_of_subgraph_restart_idle_timeout_of_parent_node(
    run: Run, noted: list[str]
) -> None:
    child = line(one=says("one"), two=says("two")).compile()
    above = line(middle=child).compile()

    async def calls(state: State) -> Any:
        return await above.ainvoke(state)

    for node in (child, above, calls):
        noted.clear()
        run(saved(limited(node, TimeoutPolicy(idle_timeout=60))), {"x": 1})
        assert set(noted) == {"a"}
        assert len(noted) > 2
        noted.clear()
        asked = TimeoutPolicy(idle_timeout=60, refresh_on="heartbeat")
        run(saved(limited(node, asked)), {"x": 1})
        assert noted == []


def test_heartbeat_in_subgraph_restarts_idle_timeout_of_all_parent_nodes(noted: list[str]) -> None:
    asked = TimeoutPolicy(idle_timeout=60, refresh_on="heartbeat")
    below = StateGraph(State).add_node("b", doing(beat), timeout=asked).add_edge(START, "b")
    plain = line(middle=below.compile()).compile()
    ainvoked(saved(limited(plain, asked)), {"x": 1})
    assert noted == ["b", "a"]


def test_heartbeat_in_subgraph_with_separate_context_restarts_idle_timeout_of_parent(
    noted: list[str],
) -> None:
    below = line(b=doing(beat)).compile()

    async def calls(state: State) -> Any:
        return await below.ainvoke(state, context={"who": "me"})

    asked = TimeoutPolicy(idle_timeout=60, refresh_on="heartbeat")
    ainvoked(saved(limited(calls, asked)), {"x": 1})
    assert noted == ["a"]


def test_node_without_timeout_calling_heartbeat_reports_no_progress(
    noted: list[str],
) -> None:
    assert ainvoked(saved(line(a=doing(beat))), {"x": 1})["log"] == ["done"]
    assert noted == []


@WAYS
@LEAPS
def test_node_calling_heartbeat_runs_longer_than_its_idle_timeout(run: Run) -> None:
    async def node(state: State, runtime: Runtime) -> dict[str, Any]:
        for _ in range(3):
            await asyncio.sleep(0.9)
            runtime.heartbeat()
        return {"log": ["done"]}

    policy = TimeoutPolicy(idle_timeout=1)
    assert run(saved(limited(node, policy)), {"x": 1})["log"] == ["done"]


# Late results.


@LEAPS
def test_timed_out_node_attempt_adds_no_stream_chunk_state_or_interrupt() -> None:
    async def drive() -> tuple[list[Any], list[str]]:
        go_on, tried = asyncio.Event(), asyncio.Event()
        calls: list[int] = []
        late: list[str] = []

        async def work() -> None:
            write = get_stream_writer()
            await go_on.wait()
            write("late")
            try:
                interrupt("late?")
            except asyncio.CancelledError:
                late.append("nobody listens")
            tried.set()

        async def node(state: State) -> dict[str, Any]:
            calls.append(1)
            if len(calls) == 1:
                # What the node started itself isn't cancelled with it.
                node.left = asyncio.create_task(work())  # type: ignore[attr-defined]
                await for_ever(state)
            go_on.set()
            await tried.wait()
            get_stream_writer()("in time")
            return {"log": [f"call {len(calls)}"]}

        graph = saved(limited(node, 5, retry_policy=AGAIN))
        heard = [
            chunk
            async for chunk in graph.astream({"x": 1}, CONFIG, stream_mode=["custom", "values"])
        ]
        return heard, late

    heard, late = asyncio.run(drive())
    assert heard == [
        ("values", {"x": 1, "log": []}),
        ("custom", "in time"),
        ("values", {"x": 1, "log": ["call 2"]}),
    ]
    assert late == ["nobody listens"]


@WAYS
def test_node_catching_cancellation_at_timeout_fails_with_node_timeout_error(run: Run) -> None:
    async def node(state: State) -> dict[str, Any]:
        try:
            return await for_ever(state)
        except asyncio.CancelledError:
            return {"log": ["late"]}

    graph = saved(limited(node, 0.01))
    with pytest.raises(NodeTimeoutError):
        run(graph, {"x": 1})
    assert log_of(graph) == []


@WAYS
def test_exception_in_cleanup_after_timeout_does_not_replace_node_timeout_error(run: Run) -> None:
    async def node(state: State) -> dict[str, Any]:
        try:
            return await for_ever(state)
        finally:
            raise ValueError("while cleaning up")

    with pytest.raises(NodeTimeoutError):
        run(saved(limited(node, 0.01)), {"x": 1})


@LEAPS
def test_next_node_attempt_starts_after_cleanup_of_timed_out_attempt() -> None:
    told: list[str] = []

    async def node(state: State) -> dict[str, Any]:
        told.append("begins")
        if told.count("begins") > 1:
            return {"log": [*told]}
        try:
            return await for_ever(state)
        finally:
            await asyncio.sleep(0.9 * timeouts.GRACE)
            told.append("has cleaned up")

    graph = saved(limited(node, 5, retry_policy=RetryPolicy(0.0001, jitter=False)))
    assert ainvoked(graph, {"x": 1})["log"] == ["begins", "has cleaned up", "begins"]


# Beside timeouts.


@WAYS
@LEAPS
def test_response_and_once_result_are_reused_after_node_timeout(run: Run) -> None:
    done: list[str] = []
    slow = [True]

    async def node(state: State) -> dict[str, Any]:
        given = interrupt("sure?")
        once("pay", done.append, "paid")
        return await for_ever(state) if slow else {"log": [given]}

    graph = saved(limited(node, 5))
    run(graph, {"x": 1})
    with pytest.raises(NodeTimeoutError):
        run(graph, Command(resume="yes"))
    slow.clear()
    assert run(graph, None)["log"] == ["yes"]
    assert done == ["paid"]


def test_cancelling_run_waits_for_node_cleanup_and_raises_cancelled_error() -> None:
    async def drive() -> list[str]:
        begun, told = asyncio.Event(), []

        async def node(state: State) -> dict[str, Any]:
            begun.set()
            try:
                return await for_ever(state)
            finally:
                await asyncio.sleep(0)
                told.append("cleaned up")

        graph = limited(node, 60, error_handler=says("handled"), retry_policy=AGAIN).compile()
        running = asyncio.create_task(graph.ainvoke({"x": 1}))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return told

    assert asyncio.run(drive()) == ["cleaned up"]


def test_cancelling_run_of_node_without_timeout_does_not_call_error_handler() -> None:
    async def drive() -> None:
        graph = limited(for_ever, None, error_handler=says("handled")).compile()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(graph.ainvoke({"x": 1}), 0.01)

    asyncio.run(drive())


@WAYS
@pytest.mark.parametrize("timeout", [None, 60])
def test_node_awaiting_cancelled_asyncio_task_fails_with_node_cancelled_error(
    run: Run, timeout: Any
) -> None:
    async def node(state: State) -> None:
        other = asyncio.create_task(asyncio.sleep(60))
        other.cancel()
        await other

    graph = saved(limited(node, timeout))
    with pytest.raises(NodeCancelledError, match="Node 'a' raised") as said:
        run(graph, {"x": 1})
    assert said.value.node == "a"
    assert isinstance(said.value.__cause__, asyncio.CancelledError)
    assert "NodeCancelledError" in graph.get_state(CONFIG).tasks[0].error


def test_async_sibling_cancelled_by_node_failure_has_no_stored_error() -> None:
    async def bad(state: State) -> None:
        raise ValueError("no")

    graph = saved(side_by_side(a=for_ever, bad=bad))
    with pytest.raises(ValueError, match="no"):
        ainvoked(graph, {"x": 1})
    assert {task.name: task.error for task in graph.get_state(CONFIG).tasks} == {
        "a": None,
        "bad": "ValueError('no')",
    }
