"""Durability: storage after each step, or at the end of the run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Annotated, Any, TypedDict

import pytest

from hitl_django import START, Command, StateGraph, once, transact
from hitl_django.engine.errors import PayloadError, UnserializableError
from hitl_django.engine.savers.memory import InMemorySaver

from .crashing import Crash
from .graphs import CONFIG, asks, line, log_of, open_interrupts, saved, says, side_by_side


class Counting(InMemorySaver):
    """Counts commits."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def commit(self, commit: Any) -> None:
        self.count += 1
        super().commit(commit)


def add_good(old: list[str], new: list[str]) -> list[str]:
    if new == ["bad"]:
        raise ValueError("bad input")
    return old + new


class GoodLog(TypedDict):
    log: Annotated[list[str], add_good]


def checkpoints(saver: InMemorySaver) -> int:
    return len(list(saver.list(CONFIG)))


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_super_step_with_sync_or_async_durability_is_stored_in_one_commit(durability: str) -> None:
    saver = Counting()
    graph = saved(line(a=says("a"), b=says("b")), saver)
    graph.invoke({"x": 1}, CONFIG, durability=durability)
    assert (saver.count, checkpoints(saver)) == (4, 4)


def test_run_with_exit_durability_stores_only_its_last_checkpoint() -> None:
    saver = Counting()
    graph = saved(line(a=says("a"), b=says("b")), saver)
    assert graph.invoke({"x": 1}, CONFIG, durability="exit")["log"] == ["a", "b"]
    assert checkpoints(saver) == 1
    assert log_of(graph) == ["a", "b"]
    assert graph.get_state(CONFIG).metadata["step"] == 2


@pytest.mark.parametrize("fails", [False, True])
def test_run_with_exit_durability_stores_same_newest_checkpoint_as_sync(fails: bool) -> None:
    def store(durability: str) -> Any:
        graph = StateGraph(GoodLog).add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a")
        app, config = graph.compile(InMemorySaver()), {"configurable": {"thread_id": durability}}
        with pytest.raises(ValueError) if fails else nullcontext():
            app.invoke({"log": ["bad" if fails else "good"]}, config, durability=durability)
        stored = app.checkpointer.get_tuple(config)
        parts = [stored.checkpoint[key] for key in ("channel_values", "updated_channels")]
        names = [list(stored.checkpoint[key]) for key in ("channel_versions", "versions_seen")]
        return parts, names, stored.metadata, [write[1:] for write in stored.pending_writes]

    assert store("exit") == store("sync")


def test_run_with_exit_durability_paused_at_interrupt_resumes_with_response() -> None:
    saver = Counting()
    graph = saved(line(a=says("a"), b=asks("q"), c=says("c")), saver)
    graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert (checkpoints(saver), list(open_interrupts(graph))) == (1, ["q"])
    assert graph.invoke(Command(resume="yes"), CONFIG, durability="exit")["log"] == [
        "a",
        "yes",
        "c",
    ]
    assert checkpoints(saver) == 2


def test_run_with_exit_durability_does_not_rerun_finished_sibling_of_interrupt() -> None:
    calls = []

    def node(state: Any) -> dict[str, Any]:
        calls.append(1)
        return {"log": ["b"]}

    graph = saved(side_by_side(a=asks("q"), b=node))
    graph.invoke({"x": 1}, CONFIG, durability="exit")
    graph.invoke(Command(resume="yes"), CONFIG, durability="exit")
    assert (log_of(graph), len(calls)) == (["yes", "b"], 1)


def test_run_with_exit_durability_stores_task_error_and_continues_on_next_invoke() -> None:
    calls = []

    def flaky(state: Any) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return {"log": ["b"]}

    graph = saved(line(a=says("a"), b=flaky))
    with pytest.raises(OSError, match="down"):
        graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert graph.get_state(CONFIG).next == ("b",)
    assert graph.get_state(CONFIG).tasks[0].error == "OSError('down')"
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b"]


def test_run_with_exit_durability_resumes_interrupt_of_a_subgraph() -> None:
    child = line(ca=says("ca"), cb=asks("child?")).compile()
    graph = saved(line(p=says("p"), sub=lambda s: {"log": child.invoke({"log": []})["log"]}))
    graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert list(open_interrupts(graph)) == ["child?"]
    graph.invoke(Command(resume="yes"), CONFIG, durability="exit")
    assert log_of(graph) == ["p", "ca", "yes"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_async_run_stores_equal_history_as_sync_run(durability: str) -> None:
    def stored(run: Any) -> Any:
        saver = InMemorySaver()
        graph = saved(line(a=says("a"), b=asks("q"), c=says("c")), saver)
        run(graph, {"x": 1})
        run(graph, Command(resume="yes"))
        return [(record.values, record.next) for record in graph.get_state_history(CONFIG)]

    def sync_run(graph: Any, value: Any) -> None:
        graph.invoke(value, CONFIG, durability=durability)

    def async_run(graph: Any, value: Any) -> None:
        asyncio.run(graph.ainvoke(value, CONFIG, durability=durability))

    assert stored(sync_run) == stored(async_run)


def test_invoke_without_checkpointer_returns_same_result_as_with_checkpointer() -> None:
    graph = line(a=says("a"), b=says("b"))
    assert graph.compile().invoke({"x": 1}) == saved(graph).invoke({"x": 1}, CONFIG)


def test_mutating_returned_value_after_run_does_not_change_stored_state() -> None:
    kept = {"list": [1]}

    def node(state: Any) -> dict[str, Any]:
        return {"x": kept}

    graph = saved(line(a=node, b=says("b")))
    graph.invoke({"x": 1}, CONFIG)
    kept["list"].append(2)
    assert graph.get_state(CONFIG).values["x"] == {"list": [1]}
    graph.get_state(CONFIG).values["x"]["list"].append(3)
    assert graph.get_state(CONFIG).values["x"] == {"list": [1]}


def test_deleted_thread_has_empty_state_and_accepts_new_input() -> None:
    saver = InMemorySaver()
    graph = saved(line(a=asks("q")), saver)
    graph.invoke({"x": 1}, CONFIG)
    saver.delete_thread("thread")
    assert graph.get_state(CONFIG).values == {}
    assert checkpoints(saver) == 0
    assert "__interrupt__" in graph.invoke({"x": 1}, CONFIG)


def test_overridden_put_of_saver_subclass_is_called_for_each_checkpoint() -> None:
    put: list[str] = []

    class Watched(InMemorySaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            put.append(metadata["source"])
            return super().put(config, checkpoint, metadata, new_versions)

    graph = saved(line(a=says("a")), Watched())
    assert graph.invoke({"x": 1}, CONFIG)["log"] == ["a"]
    assert put == ["input", "loop", "loop"]


def test_unstorable_input_raises_payload_error_and_stores_no_checkpoint() -> None:
    saver = Counting()
    graph = saved(line(a=says("a")), saver)
    with pytest.raises(PayloadError):
        graph.invoke({"x": object()}, CONFIG)
    assert (saver.count, checkpoints(saver)) == (1, 0)


class Elder(InMemorySaver):
    """Saver written before tasks had a path."""

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        super().put_writes(config, writes, task_id)


class Awaited(InMemorySaver):
    """Saver with its own async methods, like LangGraph's savers for async drivers."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited: set[str] = set()

    async def aput(self, *args: Any) -> Any:
        self.awaited.add("aput")
        return self.put(*args)

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.awaited.add("aput_writes")
        self.put_writes(config, writes, task_id)


def test_saver_with_put_writes_without_task_path_stores_and_resumes_interrupt() -> None:
    graph = saved(line(a=says("a"), b=asks("q")), Elder())
    graph.invoke({"x": 1}, CONFIG)
    assert asyncio.run(graph.ainvoke(Command(resume="yes"), CONFIG))["log"] == ["a", "yes"]


def test_async_run_calls_aput_and_aput_writes_of_saver() -> None:
    saver = Awaited()
    graph = saved(line(a=says("a"), b=asks("q")), saver)
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    assert saver.awaited == {"aput", "aput_writes"}
    assert graph.invoke(Command(resume="yes"), CONFIG)["log"] == ["a", "yes"]


# A one-time action runs after all earlier steps, regardless of their storage.


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a graph from a thread or on an event loop."""

    def call(graph: Any, value: Any, durability: str) -> Any:
        return graph.invoke(value, CONFIG, durability=durability)

    def acall(graph: Any, value: Any, durability: str) -> Any:
        return asyncio.run(graph.ainvoke(value, CONFIG, durability=durability))

    return call if request.param == "sync" else acall


@pytest.mark.promise("P6")
@pytest.mark.parametrize("act", [once, transact])
def test_run_with_exit_durability_stores_earlier_steps_before_once_or_transact_runs(
    act: Any, run: Callable[..., Any]
) -> None:
    saver, calls = InMemorySaver(), []

    def first(state: Any) -> Any:
        calls.append("first")
        return {"log": ["first"]}

    def pay() -> str:
        calls.append(str(saved(graph, saver).get_state(CONFIG).values["log"]))
        return "paid"

    def then(state: Any) -> Any:
        paid = act("pay", pay)
        calls.append("then")
        if calls.count("then") == 1:
            raise Crash
        return {"log": [paid]}

    graph = line(a=first, b=then)
    with pytest.raises(Crash):
        run(saved(graph, saver), {"x": 1}, "exit")
    assert run(saved(graph, saver), None, "exit")["log"] == ["first", "paid"]
    assert calls == ["first", "['first']", "then", "then"]


def test_run_with_exit_durability_stores_parent_state_before_once_in_subgraph_runs(
    run: Callable[..., Any],
) -> None:
    saver, seen = InMemorySaver(), []

    def pay() -> str:
        seen.extend(
            (found.config["configurable"]["checkpoint_ns"].split(":")[0], found.metadata["step"])
            for found in saver.list(CONFIG)
        )
        return "paid"

    child = line(ca=says("ca"), cb=lambda state: {"log": [once("pay", pay)]}).compile()
    graph = saved(line(a=says("a"), below=child), saver)
    assert run(graph, {"x": 1}, "exit")["log"] == ["a", "a", "ca", "paid"]
    assert sorted(seen) == [("", 1), ("below", 1)]


def test_run_with_exit_durability_stores_a_single_checkpoint_before_parallel_once_calls(
    run: Callable[..., Any],
) -> None:
    saver, meet = Counting(), threading.Barrier(2, timeout=10)

    def node(name: str) -> Callable[[Any], Any]:
        def pays(state: Any) -> Any:
            meet.wait()
            return {"log": [once("pay", lambda: name)]}

        return pays

    graph = saved(side_by_side(b=node("b"), c=node("c")), saver)
    assert run(graph, {"x": 1}, "exit")["log"] == ["b", "c"]
    # What they stand on, a result of each, and the end.
    assert (checkpoints(saver), saver.count) == (2, 4)


def test_run_with_exit_durability_and_unstorable_state_raises_error_and_stores_no_checkpoint() -> (
    None
):
    saver = InMemorySaver()
    graph = saved(line(a=says("a"), b=says("b", x=object()), c=says("c"), d=asks("q")), saver)
    with pytest.raises(UnserializableError):
        graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert checkpoints(saver) == 0


def test_run_with_exit_durability_and_unstorable_write_leaves_sibling_interrupt_pending() -> None:
    def bad(state: Any) -> Any:
        return {"x": object()}

    graph = saved(side_by_side(asking=asks("q"), bad=bad, good=says("good")))
    with pytest.raises(UnserializableError, match="bad"):
        graph.invoke({"x": 1}, CONFIG, durability="exit")
    state = graph.get_state(CONFIG)
    assert (state.values["x"], state.next) == (1, ("asking", "bad"))


# The next step runs while a step is stored.


class Slow(InMemorySaver):
    """Saver that stores steps on another thread, and delays the step ``held`` until released."""

    held = 0

    def __init__(self) -> None:
        super().__init__()
        self.threads = ThreadPoolExecutor(1)
        self.begun, self.gate = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def begin_commit(self, commit: Any) -> Future[None]:
        self.begun.set()
        return self.threads.submit(self.store, commit)

    def store(self, commit: Any) -> None:
        if commit.metadata["step"] == self.held:
            assert self.gate.wait(10)
            if self.error is not None:
                raise self.error
        self.commit(commit)


@pytest.fixture
def slow() -> Iterator[Slow]:
    saver = Slow()
    yield saver
    saver.gate.set()
    saver.threads.shutdown()


def stored_steps(saver: InMemorySaver) -> list[int]:
    return sorted(found.metadata["step"] for found in saver.list(CONFIG))


def test_run_with_async_durability_stores_super_step_while_next_one_runs(
    slow: Slow, run: Callable[..., Any]
) -> None:
    seen: list[Any] = []

    def b(state: Any) -> Any:
        seen.append((slow.begun.is_set(), stored_steps(slow)))
        slow.gate.set()
        return {"log": ["b"]}

    graph = saved(line(b=b, c=says("c")), slow)
    assert run(graph, {"x": 1}, "async")["log"] == ["b", "c"]
    # The writes of the input were being stored.
    assert seen == [(True, [-1])]
    assert stored_steps(slow) == [-1, 0, 1, 2]


def test_run_with_async_durability_stops_with_error_if_storing_a_super_step_fails(
    slow: Slow, run: Callable[..., Any]
) -> None:
    calls = []

    def node(state: Any) -> Any:
        calls.append(1)
        slow.gate.set()
        return {"log": ["b"]}

    slow.error = OSError("the database is gone")
    graph = saved(line(b=node, c=node, d=node), slow)
    with pytest.raises(OSError, match="is gone"):
        run(graph, {"x": 1}, "async")
    assert (stored_steps(slow), len(calls)) == ([-1], 1)


@pytest.mark.promise("P6")
@pytest.mark.parametrize("act", [once, transact])
def test_once_or_transact_with_async_durability_waits_until_previous_step_is_stored(
    slow: Slow, run: Callable[..., Any], act: Any
) -> None:
    order = []

    def b(state: Any) -> Any:
        order.append("b")
        threading.Timer(0.05, slow.gate.set).start()
        return {"log": [act("pay", lambda: order.append("paid"))]}

    original = slow.store

    def noted(commit: Any) -> None:
        original(commit)
        order.append("stored")

    slow.store = noted  # type: ignore[method-assign]
    run(saved(line(b=b), slow), {"x": 1}, "async")
    assert order == ["b", "stored", "paid"]


def test_interrupt_with_async_durability_is_stored_after_the_previous_step(
    slow: Slow, run: Callable[..., Any]
) -> None:
    def asking(state: Any) -> Any:
        slow.gate.set()
        return asks("q")(state)

    slow.held = 1
    graph = saved(line(a=says("a"), b=asking), slow)
    run(graph, {"x": 1}, "async")
    assert list(open_interrupts(graph)) == ["q"]
    assert run(graph, Command(resume="yes"), "async")["log"] == ["a", "yes"]


def test_stream_with_async_durability_yields_update_before_its_step_is_stored(slow: Slow) -> None:
    graph = saved(line(a=says("a"), b=says("b")), slow)
    slow.held = 1
    stream = graph.stream({"x": 1}, CONFIG, stream_mode="updates", durability="async")
    assert next(stream) == {"a": {"log": ["a"]}}
    assert stored_steps(slow) == [-1, 0]
    slow.gate.set()
    assert list(stream) == [{"b": {"log": ["b"]}}]
    assert log_of(graph) == ["a", "b"]


def test_closing_stream_with_async_durability_waits_until_last_step_is_stored(slow: Slow) -> None:
    slow.held = 1
    graph = saved(line(a=says("a"), b=says("b"), c=says("c")), slow)
    stream = graph.stream({"x": 1}, CONFIG, stream_mode="updates", durability="async")
    threading.Timer(0.05, slow.gate.set).start()
    assert next(stream) == {"a": {"log": ["a"]}}
    stream.close()
    assert log_of(graph) == ["a"]


def test_storage_error_after_close_of_stream_with_async_durability_is_logged(
    slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    slow.held, slow.error = 1, OSError("gone")
    slow.gate.set()
    graph = saved(line(a=says("a"), b=says("b")), slow)
    stream = graph.stream({"x": 1}, CONFIG, stream_mode="updates", durability="async")
    assert next(stream) == {"a": {"log": ["a"]}}
    stream.close()
    assert "could not store the last step of an abandoned run" in caplog.text
    # The lease is released nevertheless, and the thread resumes from the last stored step.
    slow.error = None
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b"]
