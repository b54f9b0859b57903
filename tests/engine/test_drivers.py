"""Drivers: concurrent tasks on OS threads and on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from hitl_django import Command, StateGraph, interrupt, once
from hitl_django.engine.errors import GraphRecursionError
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit
from hitl_django.engine.savers.memory import InMemorySaver

from .graphs import CONFIG, State, answer, asks, line, log_of, paused, saved, says, side_by_side


def invoked(graph: Pregel, value: Any, config: Any = None) -> Any:
    return graph.invoke(value, CONFIG if config is None else config)


def ainvoked(graph: Pregel, value: Any, config: Any = None) -> Any:
    return asyncio.run(graph.ainvoke(value, CONFIG if config is None else config))


WAYS = pytest.mark.parametrize("run", [invoked, ainvoked])
Run = Callable[..., Any]


@WAYS
def test_sync_tasks_of_one_super_step_run_concurrently(run: Run) -> None:
    meeting = threading.Barrier(3, timeout=60)

    def meet(state: State) -> dict[str, Any]:
        meeting.wait()
        return {"log": ["met"]}

    graph = saved(side_by_side(a=meet, b=meet, c=meet))
    assert run(graph, {"x": 1})["log"] == ["met"] * 3


def test_async_tasks_of_one_super_step_run_concurrently() -> None:
    async def drive() -> Any:
        meeting = asyncio.Barrier(3)

        async def meet(state: State) -> dict[str, Any]:
            await asyncio.wait_for(meeting.wait(), 60)
            return {"log": ["met"]}

        return await saved(side_by_side(a=meet, b=meet, c=meet)).ainvoke({"x": 1}, CONFIG)

    assert asyncio.run(drive())["log"] == ["met"] * 3


def test_cpu_bound_sync_task_does_not_block_its_sibling() -> None:
    ran = threading.Event()

    def computes(state: State) -> dict[str, Any]:
        until = time.monotonic() + 60
        while not ran.is_set() and time.monotonic() < until:
            pass
        return {"log": [ran.is_set()]}

    graph = side_by_side(a=computes, b=lambda state: ran.set() or {"log": ["b"]}).compile()
    assert graph.invoke({"x": 1})["log"] == [True, "b"]


@WAYS
def test_step_with_single_task_runs_on_the_calling_os_thread(run: Run) -> None:
    seen = []

    async def anode(state: State) -> None:
        seen.append(threading.get_ident())

    def node(state: State) -> None:
        seen.append(threading.get_ident())

    run(saved(line(a=anode if run is ainvoked else node)), {"x": 1})
    assert seen == [threading.get_ident()]


@WAYS
def test_max_concurrency_two_runs_at_most_two_of_six_tasks_simultaneously(run: Run) -> None:
    lock = threading.Lock()
    in_pairs, third = threading.Barrier(2, timeout=60), threading.Event()
    running: list[int] = []

    def work(state: State) -> dict[str, Any]:
        with lock:
            running.append(1)
            found = len(running)
        if found > 2:
            third.set()
        in_pairs.wait()
        third.wait(0.02)  # the other task can run
        with lock:
            running.pop()
        return {"log": [found]}

    graph = saved(side_by_side(**{f"n{i}": work for i in range(6)}))
    found = run(graph, {"x": 1}, {**CONFIG, "max_concurrency": 2})["log"]
    assert len(found) == 6
    assert max(found) == 2


@WAYS
@pytest.mark.parametrize("limit", [0, None])
def test_max_concurrency_zero_or_none_runs_all_tasks(run: Run, limit: int | None) -> None:
    graph = saved(side_by_side(a=says("a"), b=says("b"), c=says("c")))
    assert run(graph, {"x": 1}, {**CONFIG, "max_concurrency": limit})["log"] == ["a", "b", "c"]


@WAYS
def test_negative_max_concurrency_raises_value_error_before_input_is_stored(run: Run) -> None:
    graph = saved(side_by_side(a=says("a"), b=says("b")))
    with pytest.raises(ValueError, match="max_concurrency"):
        run(graph, {"x": 1}, {**CONFIG, "max_concurrency": -1})
    assert graph.get_state(CONFIG).next == ()


class Watched(InMemorySaver):
    """Saver that stores each commit with the OS thread that stored it."""

    thread_bound = True

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []
        self.threads: set[int] = set()

    def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        self.threads.add(threading.get_ident())
        super().commit(commit)


def test_saver_bound_to_an_os_thread_is_called_only_from_the_calling_os_thread() -> None:
    child = line(c1=says("c1"), c2=asks("q")).compile()
    saver = Watched()
    graph = saved(side_by_side(a=child, b=child, c=says("c")), saver)
    graph.invoke({"log": []}, CONFIG)
    ids = {asked.id: "yes" for asked in graph.get_state(CONFIG).interrupts}
    graph.invoke(Command(resume=ids), CONFIG)
    assert saver.threads == {threading.get_ident()}


def test_once_in_os_thread_outliving_its_run_raises_error_naming_the_ended_run() -> None:
    over = threading.Event()
    said: list[str] = []
    left: list[threading.Thread] = []

    def stays(state: State) -> dict[str, Any]:
        def late() -> None:
            over.wait()
            try:
                once("late", int)
            except BaseException as error:  # a saver's, which passes a node by
                said.append(str(error))

        left.append(threading.Thread(target=contextvars.copy_context().run, args=[late]))
        left[0].start()
        return {"log": ["stays"]}

    graph = saved(side_by_side(a=stays, b=says("b")), Watched())
    assert graph.invoke({"log": []}, CONFIG)["log"] == ["stays", "b"]
    over.set()
    left[0].join()
    assert "run has ended" in said[0]


@WAYS
@pytest.mark.parametrize("bound", [True, False])
def test_writes_of_finished_task_are_stored_while_sibling_task_is_running(
    run: Run, bound: bool
) -> None:
    saver = Watched()
    saver.thread_bound = bound
    seen: list[bool] = []

    def slow(state: State) -> dict[str, Any]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            stored = [name for commit in saver.commits for task in commit.writes
                      for name, value in task.writes if value == ["fast"]]  # fmt: skip
            if stored:
                seen.append(True)
                break
            time.sleep(0.002)
        return {"log": ["slow"]}

    graph = saved(side_by_side(fast=says("fast"), slow=slow), saver)
    assert run(graph, {"x": 1})["log"] == ["fast", "slow"]
    assert seen == [True]


@WAYS
def test_finished_sibling_of_failed_task_does_not_run_again_on_retry(run: Run) -> None:
    calls = []
    stored = threading.Event()

    class Telling(InMemorySaver):
        def commit(self, commit: Commit) -> None:
            super().commit(commit)
            if any(value == ["fine"] for task in commit.writes for _, value in task.writes):
                stored.set()

    def fine(state: State) -> dict[str, Any]:
        calls.append("fine")
        return {"log": ["fine"]}

    def bad(state: State) -> dict[str, Any]:
        calls.append("bad")
        if calls.count("bad") == 1:
            assert stored.wait(60)
            raise OSError("down")
        return {"log": ["bad"]}

    graph = saved(side_by_side(bad=bad, fine=fine), Telling())
    with pytest.raises(OSError, match="down"):
        run(graph, {"x": 1})
    assert graph.get_state(CONFIG).next == ("bad",)
    assert run(graph, None)["log"] == ["bad", "fine"]
    assert calls.count("fine") == 1


def test_running_sync_sibling_of_failed_task_completes_and_is_stored() -> None:
    begun = threading.Event()

    def slow(state: State) -> dict[str, Any]:
        begun.set()
        time.sleep(0.05)
        return {"log": ["slow"]}

    def bad(state: State) -> None:
        assert begun.wait(60)
        raise OSError("down")

    graph = saved(side_by_side(bad=bad, slow=slow))
    with pytest.raises(OSError, match="down"):
        graph.invoke({"x": 1}, CONFIG)
    assert log_of(graph) == ["slow"]


def test_running_async_sibling_of_failed_task_is_cancelled() -> None:
    begun, ended = threading.Event(), []

    async def slow(state: State) -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def bad(state: State) -> None:
        while not begun.is_set():
            await asyncio.sleep(0)
        raise OSError("down")

    with pytest.raises(OSError, match="down"):
        ainvoked(saved(side_by_side(bad=bad, slow=slow)), {"x": 1})
    assert ended == ["cancelled"]


def test_interrupt_in_one_async_task_does_not_cancel_its_siblings() -> None:
    async def slow(state: State) -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"log": ["slow"]}

    graph = saved(side_by_side(a=asks("q"), slow=slow))
    assert ainvoked(graph, {"x": 1})["log"] == ["slow"]


@WAYS
@pytest.mark.parametrize("alone", [True, False])
def test_keyboard_interrupt_in_node_is_raised_and_not_stored_as_task_error(
    run: Run, alone: bool
) -> None:
    def leave(state: State) -> None:
        raise KeyboardInterrupt

    graph = saved(line(a=leave) if alone else side_by_side(a=leave, b=says("b")))
    with pytest.raises(KeyboardInterrupt):
        run(graph, {"x": 1})
    assert all(task.error is None for task in graph.get_state(CONFIG).tasks)
    assert "a" in graph.get_state(CONFIG).next


def test_async_nodes_interrupt_and_resume_in_sync_run() -> None:
    async def node(state: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [interrupt("q")]}

    graph = saved(side_by_side(a=node, b=node))
    invoked(graph, {"x": 1})
    ids = {asked.id: "yes" for asked in graph.get_state(CONFIG).interrupts}
    assert invoked(graph, Command(resume=ids))["log"] == ["yes", "yes"]


def test_async_node_in_sync_run_called_inside_event_loop_finishes() -> None:
    async def node(state: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["a"]}

    async def inside() -> Any:
        return invoked(saved(line(a=node)), {"x": 1})

    assert asyncio.run(inside())["log"] == ["a"]


def test_async_run_executes_sync_nodes_async_nodes_and_async_branches() -> None:
    async def later(state: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["async"]}

    async def route(state: State) -> str:
        return "c"

    graph = line(a=says("a"), b=later).add_node("c", says("c"))
    graph = saved(graph.add_conditional_edges("b", route, ["c"]))
    assert ainvoked(graph, {"x": 1})["log"] == ["a", "async", "c"]


def test_thread_interrupted_in_sync_run_resumes_in_async_run_and_vice_versa() -> None:
    graph = saved(line(a=asks("one", "two"), b=says("b")))
    invoked(graph, {"x": 1})
    ainvoked(graph, Command(resume="1"))
    assert invoked(graph, Command(resume="2"))["log"] == ["1", "2", "b"]


@WAYS
def test_interrupt_in_thread_pool_of_node_receives_its_response(run: Run) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    def node(state: State) -> dict[str, Any]:
        with ThreadPoolExecutor(1) as pool:
            return {"log": [pool.submit(copy_context().run, interrupt, "q").result()]}

    graph = saved(line(a=node))
    run(graph, {"x": 1})
    assert run(graph, Command(resume="yes"))["log"] == ["yes"]


@WAYS
def test_get_config_in_concurrent_tasks_returns_config_of_the_calling_task(run: Run) -> None:
    from hitl_django.engine.task.node_api import get_config

    def node(state: State) -> dict[str, Any]:
        first = get_config()["metadata"]["langgraph_node"]
        time.sleep(0.005)
        return {"log": [first == get_config()["metadata"]["langgraph_node"] and first]}

    names = [f"n{i}" for i in range(8)]
    graph = saved(side_by_side(**dict.fromkeys(names, node)))
    assert run(graph, {"x": 1})["log"] == names


def test_thread_continues_with_invoke_after_stream_is_abandoned() -> None:
    graph = saved(line(a=says("a"), b=says("b"), c=says("c")))
    for _ in graph.stream({"x": 1}, CONFIG):
        break
    assert graph.get_state(CONFIG).next
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b", "c"]


def test_thread_continues_with_ainvoke_after_async_run_is_cancelled() -> None:
    started = threading.Event()

    async def slow(state: State) -> dict[str, Any]:
        if not started.is_set():
            started.set()
            await asyncio.sleep(600)
        return {"log": ["b"]}

    graph = saved(line(a=says("a"), b=slow))

    async def cancelled() -> None:
        running = asyncio.create_task(graph.ainvoke({"x": 1}, CONFIG))
        while not started.is_set():
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert graph.get_state(CONFIG).next == ("b",)
    assert [task.error for task in graph.get_state(CONFIG).tasks] == [None]
    assert ainvoked(graph, None)["log"] == ["a", "b"]


def test_async_run_with_nonblocking_saver_creates_no_asyncio_task() -> None:
    started: list[Any] = []

    def note(loop: asyncio.AbstractEventLoop, coroutine: Any, **kwargs: Any) -> Any:
        started.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **kwargs)

    async def double(state: State) -> dict[str, Any]:
        return {"x": state["x"] * 2}

    async def drive() -> Any:
        asyncio.get_running_loop().set_task_factory(note)
        result = await saved(line(double=double)).ainvoke({"x": 1}, CONFIG)
        return result["x"], list(started)

    assert asyncio.run(drive()) == (2, [])


@pytest.mark.parametrize("form", ["acommit", "aput"])
def test_async_run_awaits_overridden_async_saver_method(form: str) -> None:
    awaited: list[str] = []

    async def note(self: Any, *args: Any) -> Any:
        await asyncio.sleep(0)
        awaited.append(form)
        return await getattr(BaseCheckpointSaver, form)(self, *args)

    kind = type("Noting", (InMemorySaver,), {form: note})

    async def double(state: State) -> dict[str, Any]:
        return {"x": state["x"] * 2}

    app = line(double=double).compile(checkpointer=kind())
    assert asyncio.run(app.ainvoke({"x": 1}, CONFIG))["x"] == 2
    assert set(awaited) == {form}


def test_each_of_several_concurrent_threads_receives_its_response() -> None:
    graph = saved(StateGraph(State).add_node("a", asks("q")).add_edge("__start__", "a"))
    places = [{"configurable": {"thread_id": f"t{i}"}} for i in range(6)]

    def whole(number: int) -> None:
        graph.invoke({"x": number}, places[number])
        graph.invoke(Command(resume=f"answer {number}"), places[number])

    workers = [threading.Thread(target=whole, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for number, place in enumerate(places):
        assert graph.get_state(place).values == {"x": number, "log": [f"answer {number}"]}


def test_finished_run_leaves_no_os_threads_of_its_tasks() -> None:
    def sleeps(state: State) -> dict[str, Any]:
        time.sleep(0.005)
        return {"log": ["b"]}

    graph = paused(side_by_side(a=asks("qa"), b=sleeps, c=sleeps))
    answer(graph, "A")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hitl-task")]


def test_long_run_retains_no_futures_of_earlier_super_steps() -> None:
    kept: list[int] = []

    def node(state: State) -> dict[str, Any]:
        kept.append(sum(type(found) is Future for found in gc.get_objects()))
        return {"log": ["again"]}

    gc.collect()
    gc.freeze()  # garbage of earlier tests isn't collected meanwhile
    graph = StateGraph(State)
    for name in "ab":
        graph.add_node(name, node).add_edge("__start__", name)
        graph.add_conditional_edges(name, lambda state, name=name: name)
    with pytest.raises(GraphRecursionError):
        graph.compile().invoke({"x": 1, "log": []}, {"recursion_limit": 30})
    assert max(kept) - min(kept) < 10
