"""Writes of nodes in ``transact``: stored exactly once if the worker is killed at any point."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection
from django.db.models import F

from hitl_django import END, START, StateGraph, once, services, testing, transact
from hitl_django.engine.task.context import current
from hitl_django.engine.task.node_api import get_runtime
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import DURABILITIES
from hitl_django.models import Run, Thread
from hitl_django.worker import runner
from tests import processes

from . import invariants, recovery, victim
from .crash_points import SIDES
from .graphs import EMPTY, Effects, Recording, State, counted, in_mode, work
from .proxy import Fate, Proxy

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.promise("P6")]

#: Prefix of groups that record each payment. A number makes the names of repeated payments differ.
PAID = "paid by "


def pay(task: str) -> str:
    number = Group.objects.filter(name__startswith=PAID + task).count()
    Group.objects.create(name=f"{PAID}{task} {number}")
    return task


def paying(state: Any) -> Any:
    info = get_runtime().execution_info
    assert info is not None
    transact("pay", pay, info.task_id)
    return counted(get_runtime(), "pay")


def alone() -> StateGraph:
    graph = StateGraph(State).add_node("a", work("a")).add_node("p", paying)
    return graph.add_edge(START, "a").add_edge("a", "p").add_edge("p", END)


def beside() -> StateGraph:
    graph = StateGraph(State)
    for name in ("p", "q", "r"):
        graph.add_node(name, paying).add_edge(START, name)
        graph.add_node(f"{name}2", paying).add_edge(name, f"{name}2").add_edge(f"{name}2", END)
    return graph


@pytest.fixture(autouse=True)
def patient(settings: Any) -> None:
    settings.HITL = {**recovery.IMPATIENT, "MAX_ATTEMPTS": 1000}


@pytest.fixture
def paid() -> Iterator[None]:
    register()
    yield
    for mode in DURABILITIES:
        registry.unregister(in_mode("paid alone", mode))
        registry.unregister(in_mode("paid beside", mode))


def register() -> None:
    for mode in DURABILITIES:
        registry.register(in_mode("paid alone", mode), durability=mode)(alone)
        registry.register(in_mode("paid beside", mode), durability=mode)(beside)


def crash(run: str, marks: Path, nth: int, after: bool) -> None:
    register()
    Recording.effects = Effects(marks)
    with victim.armed(victim.Bomb(nth, after)):
        runner.advance(run)


def toil(runs: list[str], marks: Path, told: Any) -> None:
    register()
    Recording.effects = Effects(marks)
    connection.ensure_connection()
    told.send(None)
    for run in runs:
        runner.advance(run)
    threading.Event().wait()  # this process is killed


def insist(key: str, marks: Path, told: Any) -> None:
    register()
    victim.insist("paid alone", key, marks, told)


def assert_each_paid_once(effects: Effects, each: int) -> None:
    recovery.settle()
    assert {run.state for run in Run.objects.all()} == {"succeeded"}
    assert invariants.faults(effects=effects) == []
    tasks = [task for record in invariants.records() for task in invariants.tasks_of(record)]
    rows = Counter(name.split()[2] for name in Group.objects.values_list("name", flat=True))
    assert set(rows.values()) == {1}
    assert set(rows) <= set(tasks)
    assert len(rows) == each * Run.objects.count()


@pytest.mark.crash
@pytest.mark.usefixtures("paid")
@pytest.mark.parametrize("after", SIDES)
@pytest.mark.parametrize("mode", DURABILITIES)
def test_transact_killed_at_any_statement_writes_its_row_once(
    mode: str, after: bool, effects: Effects
) -> None:
    nth = 0
    while True:
        nth += 1
        run = str(services.start(in_mode("paid alone", mode), EMPTY).id)
        process = processes.start(crash, run, effects.path, nth, after)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, victim.CRASHED)
        if not process.exitcode:
            break
    assert nth > 8
    assert_each_paid_once(effects, 1)


@pytest.mark.crash
@pytest.mark.sessions
@pytest.mark.database("postgresql")
@pytest.mark.usefixtures("paid")
@pytest.mark.parametrize("fate", ["unheard", "unanswered"])
def test_transact_whose_commit_is_unconfirmed_writes_its_row_once(
    fate: Fate, effects: Effects
) -> None:
    nth, failures = 0, 1
    with Proxy(lambda: fate if len(proxy.met) + 1 == nth else "pass") as proxy:
        while failures:
            nth += 1
            proxy.met.clear()
            ours, theirs = processes.SERVER.Pipe(duplex=False)
            arguments = (str(nth), effects.path, theirs)
            process = processes.start(insist, *arguments, database=proxy.settings())
            process.join(processes.PATIENCE)
            assert process.exitcode == 0
            ours.recv()
            failures = len(proxy.met) - proxy.met.count("pass")
    assert nth > 4
    assert_each_paid_once(effects, 1)


@pytest.mark.crash
@pytest.mark.usefixtures("paid")
def test_transact_killed_at_random_writes_its_row_once(
    effects: Effects,
    amount: Callable[[int, int], int],
    chance: Random,
    figures: Callable[[str], None],
) -> None:
    kills = amount(8, 200)
    for number in range(kills):
        graph = in_mode("paid beside", DURABILITIES[number % 3])
        runs = [str(services.start(graph, EMPTY).id) for _ in range(2)]
        ours, theirs = processes.SERVER.Pipe(duplex=False)
        process = processes.start(toil, runs, effects.path, theirs)
        assert ours.poll(processes.PATIENCE)
        threading.Event().wait(chance.uniform(0, 0.15))
        processes.kill(process)
    left = Run.objects.exclude(state="succeeded").count()
    assert_each_paid_once(effects, 6)
    figures(f"{kills} kills, {left} runs unfinished afterwards: each row stored once")


@pytest.fixture
def node() -> Iterator[Callable[[Callable[[Any], Any]], Any]]:
    """Start a run of one node, and execute it."""

    def run(function: Callable[[Any], Any]) -> Run:
        registry.register("one node")(
            lambda: (
                StateGraph(State).add_node("n", function).add_edge(START, "n").add_edge("n", END)
            )
        )
        with testing.inline() as advance:
            info = services.start("one node", EMPTY)
            advance()
        return Run.objects.get(pk=info.id)

    yield run
    registry.unregister("one node")


def test_transact_in_worker_whose_lease_was_taken_over_writes_no_row(node: Any) -> None:
    def lose() -> None:
        Group.objects.create(name="late")
        Thread.objects.update(epoch=F("epoch") + 1)

    assert node(lambda state: transact("k", lose)).state == "running"
    assert not Group.objects.exists()
    assert Thread.objects.get().epoch == 1


def test_failed_transact_is_rolled_back_and_runs_once_after_retry(node: Any) -> None:
    faults: list[Exception] = [ValueError("first")]

    def act() -> int:
        Group.objects.create(name="once")
        if faults:
            raise faults.pop()
        return 7

    def twice(state: Any) -> Any:
        return {"total": transact("k", act) + transact("k", act)}

    run = node(twice)
    assert (run.state, run.error) == ("failed", "ValueError: first")
    assert not Group.objects.exists()
    with testing.inline() as advance:
        services.retry(run.pk)
        advance()
    assert services.run_result(run.pk)["total"] == 14
    assert Group.objects.count() == 1


def test_transact_with_unstorable_result_fails_node_and_is_rolled_back(node: Any) -> None:
    def act() -> object:
        Group.objects.create(name="lost")
        return object()

    run = node(lambda state: transact("k", act))
    assert run.state == "failed"
    assert "$" in run.error
    assert not Group.objects.exists()


def test_transact_with_async_function_fails_node_with_the_reason(
    node: Any,
) -> None:
    async def act() -> None:
        pass

    assert "transactions are bound to a thread" in node(lambda state: transact("k", act)).error


def test_transact_with_serialization_conflict_runs_again_and_writes_its_row_once(node: Any) -> None:
    def act() -> int:
        tries.append(Group.objects.count())
        Group.objects.create(name="once")
        if len(tries) == 1:
            raise OperationalError from Conflict
        return 7

    tries: list[int] = []
    run = node(lambda state: {"total": transact("k", act)})
    assert (run.state, tries) == ("succeeded", [0, 0])
    assert Group.objects.count() == 1


class Conflict(Exception):
    """Driver error about a rolled-back transaction."""

    sqlstate = "40001"


def test_transact_waiting_for_lock_of_another_os_thread_writes_its_row_once(node: Any) -> None:
    class Reluctant:
        """A lock that another worker has on the first attempt."""

        def __init__(self) -> None:
            self.lock, self.asked = threading.Lock(), 0

        def acquire(self, *, blocking: bool) -> bool:
            self.asked += 1
            return self.asked > 1 and self.lock.acquire(blocking=blocking)

        def __enter__(self) -> None:
            seen.append(Group.objects.count())  # no lock of this worker blocks the others

        def __exit__(self, *error: object) -> None:
            pass

        def release(self) -> None:
            self.lock.release()

    def act() -> int:
        Group.objects.create(name="once")
        return 7

    def held(state: Any) -> Any:
        context = current.get()
        assert context is not None
        context.once_guard.storing = Reluctant()
        return {"total": transact("k", act)}

    seen: list[int] = []
    assert node(held).state == "succeeded"
    assert (seen, Group.objects.count()) == ([0], 1)


@pytest.mark.parametrize("deed", [once, transact])
def test_once_or_transact_called_inside_transact_fails_the_node(deed: Any, node: Any) -> None:
    run = node(lambda state: transact("k", lambda: deed("inner", int)))
    assert run.state == "failed"
    assert "'inner' inside transact()" in run.error
