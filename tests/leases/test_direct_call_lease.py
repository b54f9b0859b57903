"""Two concurrent runs of one thread: the second is refused before it does anything."""

from __future__ import annotations

import asyncio
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connections, transaction
from django.test import override_settings
from typing_extensions import TypedDict

from hitl_django import (
    END,
    START,
    Command,
    StateGraph,
    interrupt,
    run_leases,
    services,
    testing,
)
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.savers.checkpoint import (
    BaseCheckpointSaver,
    Commit,
    Outcome,
    TaskWrites,
)
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.errors import LeaseLostError, LeaseTakenError, PendingInterruptsError
from hitl_django.leases import direct_call_lease
from hitl_django.models import Thread
from hitl_django.models.functions import Now
from tests import processes

from .ended import running_owner

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG: Any = {"configurable": {"thread_id": "t"}}
PATIENCE = 60
Saver = BaseCheckpointSaver
MakeSaver = Callable[[], Saver]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["memory", "django", "django, two of them"])
def savers(request: pytest.FixtureRequest) -> MakeSaver:
    shared: Saver = InMemorySaver() if request.param == "memory" else DjangoSaver()
    return DjangoSaver if "two" in request.param else lambda: shared


class Gate:
    """Node that waits for a signal, and counts how often it started."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.calls = threading.Event(), threading.Event(), 0

    def __call__(self, state: State) -> State:
        self.calls += 1
        self.begun.set()
        assert self.may_end.wait(PATIENCE)
        return {"log": ["gate"]}


def build(saver: Saver, *nodes: Any, **options: Any) -> Any:
    graph = StateGraph(State)
    before = START
    for number, node in enumerate(nodes):
        graph.add_node(f"n{number}", node).add_edge(before, f"n{number}")
        before = f"n{number}"
    return graph.add_edge(before, END).compile(checkpointer=saver, **options)


def ask(state: State) -> State:
    return {"log": [interrupt("?")]}


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def call(threads: ThreadPoolExecutor, graph: Any, value: Any, **options: Any) -> Future[Any]:
    def run() -> Any:
        try:
            return graph.invoke(value, CONFIG, **options)
        finally:
            connections.close_all()

    return threads.submit(run)


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_second_direct_call_with_input_on_running_thread_raises_lease_taken_error(
    savers: MakeSaver, threads: ThreadPoolExecutor, durability: Any
) -> None:
    gate = Gate()
    first = call(threads, build(savers(), gate), {"log": ["in"]}, durability=durability)
    assert gate.begun.wait(PATIENCE)
    second = call(threads, build(savers(), gate), {"log": ["again"]}, durability=durability)
    with pytest.raises(
        LeaseTakenError, match="'t' is in use by another run in this process"
    ) as refused:
        second.result(PATIENCE)
    assert refused.value.thread_id == "t"
    gate.may_end.set()
    assert first.result(PATIENCE) == {"log": ["in", "gate"]}
    assert gate.calls == 1


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_second_direct_call_with_response_on_running_thread_raises_lease_taken_error(
    savers: MakeSaver, threads: ThreadPoolExecutor, durability: Any
) -> None:
    gate = Gate()

    def node(state: State) -> State:
        answer = interrupt("?")
        return {"log": [answer, *gate(state)["log"]]}

    build(savers(), node).invoke({"log": []}, CONFIG)
    options = {"durability": durability}
    first = call(threads, build(savers(), node), Command(resume="yes"), **options)
    assert gate.begun.wait(PATIENCE)
    second = call(threads, build(savers(), node), Command(resume="no"), **options)
    with pytest.raises(LeaseTakenError):
        second.result(PATIENCE)
    gate.may_end.set()
    assert first.result(PATIENCE) == {"log": ["yes", "gate"]}
    assert gate.calls == 1
    assert build(savers(), node).get_state(CONFIG).values == {"log": ["yes", "gate"]}


def test_direct_call_starts_after_earlier_call_on_the_thread_ended(savers: MakeSaver) -> None:
    graph, other = build(savers(), lambda state: None), build(savers(), lambda state: None)
    graph.invoke({"log": ["1"]}, CONFIG)
    other.invoke({"log": ["2"]}, CONFIG)
    assert graph.invoke({"log": ["3"]}, CONFIG) == {"log": ["1", "2", "3"]}


def test_get_state_and_history_are_readable_during_direct_call_on_the_thread(
    savers: MakeSaver, threads: ThreadPoolExecutor
) -> None:
    gate = Gate()
    first = call(threads, build(savers(), gate), {"log": ["in"]})
    assert gate.begun.wait(PATIENCE)
    graph = build(savers(), gate)
    assert graph.get_state(CONFIG).values == {"log": ["in"]}
    assert len(list(graph.get_state_history(CONFIG))) == 2
    gate.may_end.set()
    first.result(PATIENCE)


def test_direct_calls_on_different_threads_run_in_parallel(
    savers: MakeSaver, threads: ThreadPoolExecutor
) -> None:
    gate = Gate()
    first = call(threads, build(savers(), gate), {"log": ["in"]})
    assert gate.begun.wait(PATIENCE)
    other = {"configurable": {"thread_id": "other"}}
    graph = build(savers(), lambda state: None)
    assert graph.invoke({"log": ["x"]}, other) == {"log": ["x"]}
    gate.may_end.set()
    first.result(PATIENCE)


@pytest.mark.parametrize("is_async", [False, True])
def test_second_asyncio_call_on_running_thread_raises_lease_taken_error(
    savers: MakeSaver, is_async: bool
) -> None:
    calls = []

    async def main() -> Any:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def node(state: State) -> State:
            calls.append(1)
            begun.set()
            await may_end.wait()
            return {"log": ["node"]}

        async def read(graph: Any) -> Any:
            async for chunk in graph.astream({"log": ["in"]}, CONFIG, stream_mode="values"):
                last = chunk
            return last

        graph = build(savers(), node)
        ends = read(graph) if is_async else graph.ainvoke({"log": ["in"]}, CONFIG)
        first = asyncio.create_task(ends)
        await begun.wait()
        with pytest.raises(LeaseTakenError):
            await build(savers(), node).ainvoke({"log": ["again"]}, CONFIG)
        may_end.set()
        return await first

    assert async_to_sync(main)() == {"log": ["in", "node"]}
    assert calls == [1]


@pytest.mark.parametrize("end", ["fails", "is refused", "is closed", "pauses"])
def test_direct_call_releases_its_lease_after_failure_pause_rejection_or_close(
    savers: MakeSaver, end: str
) -> None:
    def fail(state: State) -> State:
        raise ValueError("no")

    if end == "fails":
        with pytest.raises(ValueError, match="no"):
            build(savers(), fail).invoke({"log": ["in"]}, CONFIG)
    elif end == "is closed":
        stream = build(savers(), ask).stream({"log": ["in"]}, CONFIG, stream_mode="values")
        next(stream)
        stream.close()
    else:
        build(savers(), ask).invoke({"log": ["in"]}, CONFIG)
        if end == "is refused":
            with pytest.raises(PendingInterruptsError):
                build(savers(), ask).invoke({"log": ["in"]}, CONFIG)
    assert not Thread.objects.exclude(lease_until=None).exists()
    graph = build(savers(), lambda state: {"log": ["other"]})
    graph.invoke(Command(resume="a") if end in ("pauses", "is refused") else None, CONFIG)
    assert graph.get_state(CONFIG).values == {"log": ["in", "other"]}


def test_cancelled_asyncio_call_releases_the_lease_of_its_thread(savers: MakeSaver) -> None:
    async def main() -> Any:
        begun = asyncio.Event()

        async def node(state: State) -> State:
            begun.set()
            await asyncio.Event().wait()
            return {}

        run = asyncio.create_task(build(savers(), node).ainvoke({"log": ["in"]}, CONFIG))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await build(savers(), lambda state: {"log": ["b"]}).ainvoke(None, CONFIG)

    assert async_to_sync(main)() == {"log": ["in", "b"]}


def test_paused_direct_call_can_be_resumed_from_another_os_thread(
    savers: MakeSaver, threads: ThreadPoolExecutor
) -> None:
    stream = build(savers(), ask).stream({"log": []}, CONFIG)
    assert "__interrupt__" in next(stream)
    answered = call(threads, build(savers(), ask), Command(resume="yes"))
    assert answered.result(PATIENCE) == {"log": ["yes"]}
    assert list(stream) == []


def test_invoke_after_abandoned_stream_takes_over_lease_of_the_stream() -> None:
    for saver in (InMemorySaver(), DjangoSaver()):
        first = build(saver, lambda state: {"log": ["a"]}, lambda state: {"log": ["b"]})
        left = first.stream({"log": ["in"]}, CONFIG)
        assert next(left) == {"n0": {"log": ["a"]}}
        assert first.invoke(None, CONFIG) == {"log": ["in", "a", "b"]}
        with pytest.raises(LeaseLostError):
            list(left)
        assert first.get_state(CONFIG).values == {"log": ["in", "a", "b"]}
        assert first.invoke({"log": ["more"]}, CONFIG)["log"][3:] == ["more", "a", "b"]


def test_ainvoke_after_abandoned_async_stream_takes_over_lease_of_the_stream(
    savers: MakeSaver,
) -> None:
    saver = savers()

    async def main() -> Any:
        graph = build(saver, lambda state: {"log": ["a"]}, lambda state: {"log": ["b"]})
        async for _ in graph.astream({"log": ["in"]}, CONFIG):
            break
        return await graph.ainvoke(None, CONFIG)

    assert async_to_sync(main)() == {"log": ["in", "a", "b"]}


def test_invoke_on_another_os_thread_during_open_stream_raises_lease_taken_error(
    savers: MakeSaver, threads: ThreadPoolExecutor
) -> None:
    graph = build(savers(), lambda state: {"log": ["a"]}, lambda state: {"log": ["b"]})
    left = graph.stream({"log": ["in"]}, CONFIG)
    next(left)
    refused = call(threads, build(savers(), ask), None)
    with pytest.raises(LeaseTakenError):
        refused.result(PATIENCE)
    assert [*left] == [{"n1": {"log": ["b"]}}]


def test_node_that_invokes_a_graph_on_the_thread_of_its_run_gets_lease_taken_error(
    savers: MakeSaver,
) -> None:
    other = build(savers(), lambda state: None)

    def node(state: State) -> State:
        with pytest.raises(LeaseTakenError):
            other.invoke({"log": ["x"]}, CONFIG)
        return {"log": ["node"]}

    assert build(savers(), node).invoke({"log": ["in"]}, CONFIG) == {"log": ["in", "node"]}


# Calls in several processes.


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(direct_call_lease, "_LEASES", {})


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_direct_call_in_another_process_on_running_thread_raises_lease_taken_error(
    threads: ThreadPoolExecutor, elsewhere: Callable[[], None], durability: Any
) -> None:
    gate = Gate()
    graph = build(DjangoSaver(), gate)
    first = call(threads, graph, {"log": ["in"]}, durability=durability)
    assert gate.begun.wait(PATIENCE)
    elsewhere()
    with pytest.raises(LeaseTakenError, match="is in use: leased by"):
        build(DjangoSaver(), gate).invoke({"log": ["again"]}, CONFIG)
    gate.may_end.set()
    assert first.result(PATIENCE) == {"log": ["in", "gate"]}
    assert gate.calls == 1


def test_direct_call_that_read_state_before_another_run_resumed_raises_lease_taken_error(
    elsewhere: Callable[[], None],
) -> None:
    graph = build(DjangoSaver(), ask)
    graph.invoke({"log": []}, CONFIG)

    class Slow(DjangoSaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            elsewhere()
            assert graph.invoke(Command(resume="first"), CONFIG) == {"log": ["first"]}
            return found

    with pytest.raises(LeaseTakenError, match="another run took over the thread"):
        build(Slow(), ask).invoke(Command(resume="second"), CONFIG)
    assert graph.get_state(CONFIG).values == {"log": ["first"]}


def test_direct_call_raises_lease_taken_error_if_another_run_starts_on_the_thread_meanwhile(
    elsewhere: Callable[[], None],
) -> None:
    class Slow(DjangoSaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            elsewhere()
            build(DjangoSaver(), ask).invoke({"log": ["first"]}, CONFIG)
            return found

    with pytest.raises(LeaseTakenError, match="another run started first"):
        build(Slow(), ask).invoke({"log": ["second"]}, CONFIG)
    assert build(DjangoSaver(), ask).get_state(CONFIG).values == {"log": ["first"]}


def run_forever(begun: Any) -> None:
    def node(state: State) -> State:
        begun.set()
        threading.Event().wait()
        return {}

    build(DjangoSaver(), node).invoke({"log": ["in"]}, CONFIG)


def test_thread_of_killed_process_accepts_direct_call_after_its_lease_expired() -> None:
    begun = processes.SERVER.Event()
    graph = build(DjangoSaver(), lambda state: {"log": ["after"]})
    with override_settings(HITL={**settings.HITL, "LEASE_SECONDS": 2, "HEARTBEAT_SECONDS": 0.2}):
        victim = processes.start(run_forever, begun)
        assert begun.wait(PATIENCE)
        with pytest.raises(LeaseTakenError):
            graph.invoke(None, CONFIG)
        until = Thread.objects.get().lease_until
        while Thread.objects.get().lease_until == until:
            pass  # the process of the call renews the lease
        processes.kill(victim)
        connections.close_all()
        while True:
            try:
                found = graph.invoke(None, CONFIG)
            except LeaseTakenError:
                continue
            break
    assert found == {"log": ["in", "after"]}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are identified only on Linux")
def test_direct_call_takes_over_unexpired_lease_only_of_ended_process() -> None:
    graph = build(DjangoSaver(), ask)
    graph.invoke({"log": []}, CONFIG)
    until = Now() + timedelta(hours=1)
    with running_owner() as (owner, process):
        Thread.objects.update(lease_owner=owner, lease_until=until)
        with pytest.raises(LeaseTakenError, match="leased by"):
            graph.invoke(Command(resume="early"), CONFIG)
        process.kill()
        process.wait()
        assert graph.invoke(Command(resume="late"), CONFIG) == {"log": ["late"]}
    assert Thread.objects.get().lease_until is None


def test_direct_call_whose_lease_was_taken_over_raises_lease_lost_error_and_stores_no_rows(
    threads: ThreadPoolExecutor, elsewhere: Callable[[], None]
) -> None:
    gate = Gate()
    first = call(threads, build(DjangoSaver(), gate), {"log": ["in"]})
    assert gate.begun.wait(PATIENCE)
    # The process was suspended for that long.
    Thread.objects.update(lease_until="2000-01-01T00:00Z")
    elsewhere()
    graph = build(DjangoSaver(), lambda state: {"log": ["second"]})
    assert graph.invoke(None, CONFIG) == {"log": ["in", "second"]}
    gate.may_end.set()
    with pytest.raises(LeaseLostError):
        first.result(PATIENCE)
    assert graph.get_state(CONFIG).values == {"log": ["in", "second"]}
    assert Thread.objects.get().lease_until is None


def test_direct_call_that_read_state_before_a_suspended_run_continued_raises_lease_taken_error(
    threads: ThreadPoolExecutor, elsewhere: Callable[[], None]
) -> None:
    gate, next_gate = Gate(), Gate()
    first = call(threads, build(DjangoSaver(), gate, next_gate), {"log": ["in"]})
    assert gate.begun.wait(PATIENCE)
    # The process was suspended for that long.
    Thread.objects.update(lease_until="2000-01-01T00:00Z")
    elsewhere()

    class Slow(DjangoSaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            gate.may_end.set()
            assert next_gate.begun.wait(PATIENCE)
            return found

    second = build(Slow(), lambda state: {"log": ["second"]})
    with pytest.raises(LeaseTakenError, match="another run took over the thread"):
        second.invoke(None, CONFIG)
    next_gate.may_end.set()
    assert first.result(PATIENCE) == {"log": ["in", "gate", "gate"]}


def test_direct_call_that_read_state_before_a_suspended_run_ended_raises_lease_taken_error(
    threads: ThreadPoolExecutor, elsewhere: Callable[[], None]
) -> None:
    gate = Gate()
    first = call(threads, build(DjangoSaver(), gate), {"log": ["in"]})
    assert gate.begun.wait(PATIENCE)
    # The process was suspended for that long.
    Thread.objects.update(lease_until="2000-01-01T00:00Z")
    elsewhere()

    class Slow(DjangoSaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            gate.may_end.set()
            assert first.result(PATIENCE) == {"log": ["in", "gate"]}
            return found

    second = build(Slow(), lambda state: {"log": ["second"]})
    with pytest.raises(LeaseTakenError, match="another run took over the thread"):
        second.invoke(None, CONFIG)
    assert second.get_state(CONFIG).values == {"log": ["in", "gate"]}


@pytest.mark.parametrize("outcome", [None, Outcome("drained")])
def test_direct_call_that_read_state_before_a_suspended_worker_committed_raises_lease_taken_error(
    outcome: Outcome | None,
) -> None:
    with testing.inline():
        run = services.start("steps", {"log": []})
    lease = run_leases.claim(run.id)
    assert lease is not None
    # The process was suspended for that long.
    Thread.objects.update(lease_until="2000-01-01T00:00Z")
    place: Any = {"configurable": {"thread_id": run.thread_id}}
    late = DjangoSaver(lease.thread, run_leases.RunFence(lease))

    class Slow(DjangoSaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            late.commit(Commit(place, [TaskWrites("t", "", [("log", ["late"])])], outcome=outcome))
            return found

    with pytest.raises(LeaseTakenError, match="another run took over the thread"):
        build(Slow(), lambda state: {"log": ["second"]}).invoke({"log": ["in"]}, place)


def test_direct_call_in_rolled_back_transaction_leaves_no_thread_and_no_lease() -> None:
    graph = build(DjangoSaver(), ask)
    with transaction.atomic():
        graph.invoke({"log": ["in"]}, CONFIG)
        graph.invoke(Command(resume="yes"), CONFIG)
        transaction.set_rollback(True)
    assert not Thread.objects.exists()
    with transaction.atomic():
        graph.invoke({"log": ["in"]}, CONFIG)
    assert graph.invoke(Command(resume="yes"), CONFIG) == {"log": ["in", "yes"]}


def test_direct_call_on_thread_leased_by_worker_raises_lease_taken_error() -> None:
    build(DjangoSaver(), ask).invoke({"log": []}, CONFIG)
    Thread.objects.update(lease_owner="worker", lease_until="2999-01-01T00:00Z")
    with pytest.raises(LeaseTakenError, match="is in use: leased by worker"):
        build(DjangoSaver(), ask).invoke(Command(resume="yes"), CONFIG)
