"""Connections lost at random, and connections lost during a COMMIT."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from django.db import connection

from hitl_django.models import Decision, Run, Thread
from tests import processes

from . import invariants, recovery, victim
from .graphs import SHAPES, Effects, end_of, in_mode
from .proxy import Fate, Proxy

pytestmark = [
    pytest.mark.crash,
    pytest.mark.sessions,
    pytest.mark.database("postgresql"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.promise("P6"),
]

NAME = "chaos victim"


@pytest.fixture(autouse=True)
def patient_with_failures(settings: Any) -> None:
    # Without this limit, a run that loses its connection repeatedly would be parked.
    settings.HITL = {**recovery.IMPATIENT, "MAX_ATTEMPTS": 1000}


@pytest.fixture
def toiling(effects: Effects, chance: Random) -> Iterator[Callable[[dict[str, Any]], Any]]:
    """Return a function that starts a working process with an unreliable connection."""
    started: list[Any] = []

    def start(database: dict[str, Any]) -> Any:
        ours, theirs = processes.SERVER.Pipe(duplex=False)
        seed = chance.getrandbits(32)
        process = processes.start(victim.toil, effects.path, seed, theirs, database=database)
        started.append(process)
        assert ours.poll(processes.PATIENCE)
        return process

    yield start
    for process in started:
        if process.is_alive():
            processes.kill(process)


def drop() -> int:
    """End the sessions of the victim, and return their number."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            [NAME],
        )
        return len(cursor.fetchall())


def assert_all_is_well(effects: Effects) -> None:
    recovery.settle()
    assert invariants.faults(effects=effects) == []
    assert (invariants.unfinished(), invariants.astray()) == ([], [])
    runs = Run.objects.all()
    assert {run.state for run in runs} == {"succeeded"}
    ended = {run.thread_id: end_of(run.graph) for run in runs}
    for record in invariants.records():
        state = invariants.values_of(record, invariants.head_of(record))
        assert (state["total"], state["answers"]) == ended[record.thread.pk]


@pytest.mark.promise("P7")
def test_worker_whose_connections_are_dropped_loses_and_repeats_no_writes(
    toiling: Callable[[dict[str, Any]], Any],
    effects: Effects,
    amount: Callable[[int, int], int],
    chance: Random,
    figures: Callable[[str], None],
) -> None:
    options = {**connection.settings_dict["OPTIONS"], "application_name": NAME}
    process = toiling({"OPTIONS": options})
    wanted, dropped = amount(40, 200), 0
    while dropped < wanted:
        if dropped % 3 == 0:
            effects.wait_for_more()
        threading.Event().wait(chance.uniform(0, 0.1))
        assert process.is_alive()
        dropped += drop()
    processes.kill(process)
    assert_all_is_well(effects)
    done, count = len(effects.done()), Run.objects.count()
    figures(
        f"{dropped} connections dropped: 0 writes lost or duplicated; {count} runs succeeded, "
        f"{done} functions finished"
    )


def test_worker_whose_connections_break_at_commit_loses_and_repeats_no_writes(
    toiling: Callable[[dict[str, Any]], Any],
    effects: Effects,
    amount: Callable[[int, int], int],
    chance: Random,
    figures: Callable[[str], None],
) -> None:
    wanted = amount(40, 200)
    enough = threading.Event()

    def fate() -> Fate:
        met = len(proxy.met)
        if met - proxy.met.count("pass") >= wanted:
            enough.set()
        return chance.choice(["pass"] * 6 + ["unheard", "unanswered"])

    with Proxy(fate) as proxy:
        process = toiling(proxy.settings())
        met = 0
        while not enough.wait(processes.PATIENCE / 4):
            assert len(proxy.met) > met, "no more data was sent"
            met = len(proxy.met)
        processes.kill(process)
    assert set(proxy.met) == {"pass", "unheard", "unanswered"}
    assert_all_is_well(effects)
    met_by = Counter(proxy.met)
    figures(
        f"{met_by.total()} commits, of which {met_by['unheard']} never arrived and "
        f"{met_by['unanswered']} had no response: 0 writes lost or duplicated"
    )


@pytest.mark.promise("P2")
@pytest.mark.promise("P3")
@pytest.mark.parametrize("fate", ["unheard", "unanswered"])
@pytest.mark.parametrize(
    "shape", [*SHAPES, in_mode("chaos fan", "async"), in_mode("chaos nested", "exit")]
)
def test_worker_checks_unconfirmed_commit_and_does_not_repeat_its_writes(
    shape: str, fate: Fate, effects: Effects
) -> None:
    nth, failures = 0, 1
    with Proxy(lambda: fate if len(proxy.met) + 1 == nth else "pass") as proxy:
        while failures:
            nth += 1
            proxy.met.clear()
            ours, theirs = processes.SERVER.Pipe(duplex=False)
            arguments = (shape, str(nth), effects.path, theirs)
            process = processes.start(victim.insist, *arguments, database=proxy.settings())
            process.join(processes.PATIENCE)
            assert process.exitcode == 0
            ours.recv()
            failures = len(proxy.met) - proxy.met.count("pass")
    assert nth > 6
    assert Run.objects.count() == Thread.objects.count() == nth
    assert Decision.objects.count() == nth * len(end_of(shape)[1])
    assert_all_is_well(effects)
