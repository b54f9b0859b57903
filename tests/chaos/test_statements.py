"""Crashes before and after every statement of a run, from its start to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import services
from hitl_django.models import Decision, Run, Thread
from tests import processes

from . import invariants, recovery, victim
from .crash_points import SIDES
from .graphs import EMPTY, SHAPES, Effects, end_of, in_mode

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
]


def crash_everywhere(shape: str, marks: Path, after: bool) -> list[str]:
    """Crash a process at each statement, each time with a new run. Return the runs' keys."""
    keys: list[str] = []
    survivors = 0
    # The number of statements varies, because concurrent tasks are stored together or separately.
    # The first run that survives may not have reached every statement.
    while survivors < 3:
        keys.append(str(len(keys) + 1))
        process = processes.start(victim.live, shape, keys[-1], marks, len(keys), after)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, victim.CRASHED)
        survivors += not process.exitcode
    return keys


@pytest.mark.promise("P3")
@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
@pytest.mark.promise("P9")
@pytest.mark.parametrize("after", SIDES)
@pytest.mark.parametrize("shape", SHAPES)
def test_run_killed_at_any_statement_loses_and_repeats_no_writes(
    shape: str, after: bool, effects: Effects
) -> None:
    # A crash repeats the tasks of at most one super-step.
    assert spend_by_crashes(shape, after, effects) <= 3


@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    "mode", ["exit", pytest.param("async", marks=pytest.mark.database("postgresql"))]
)
@pytest.mark.parametrize(
    ("shape", "after"),
    [(shape, bool(at % 2)) for at, shape in enumerate(SHAPES)],
    ids=[f"{shape}-{'after' if at % 2 else 'before'}" for at, shape in enumerate(SHAPES)],
)
def test_run_with_async_or_exit_durability_killed_at_any_statement_loses_no_writes(
    shape: str, after: bool, mode: str, effects: Effects
) -> None:
    # A crash repeats the tasks of two super-steps, or of all super-steps since the last interrupt.
    assert spend_by_crashes(in_mode(shape, mode), after, effects) <= 4


def spend_by_crashes(shape: str, after: bool, effects: Effects) -> float:
    """Crash runs at each statement and check the rows, immediately and after recovery.

    Return the number of repeated function calls per crash.
    """
    keys = crash_everywhere(shape, effects.path, after)
    assert len(keys) > 15
    # Check immediately, before any recovery: no operation may be stored partially.
    assert invariants.faults(effects=effects) == []
    assert invariants.astray() == []
    assert not Thread.objects.filter(runs__isnull=True).exists()
    # The same reviewer repeats the response, because the first confirmation was lost.
    for decision in Decision.objects.select_related("interrupt"):
        asked = decision.interrupt
        again = services.decide(asked.pk, "respond", decision.value, key="the reviewer's")
        assert (again.repeated, again.id) == (True, decision.pk)

    for key in keys:
        services.start(shape, EMPTY, key=key)
    recovery.settle()
    assert invariants.faults(effects=effects) == []
    assert (invariants.unfinished(), invariants.astray()) == ([], [])
    assert Run.objects.filter(state="succeeded").count() == len(keys) == Thread.objects.count()
    for record in invariants.records():
        state = invariants.values_of(record, invariants.head_of(record))
        assert (state["total"], state["answers"]) == end_of(shape)
    spent = len(effects.done()) - len(keys) * end_of(shape)[0]
    assert spent >= 0
    return spent / len(keys)


def test_statement_counter_counts_every_statement_of_a_run_except_transaction_statements(
    effects: Effects,
) -> None:
    bomb = victim.Bomb(0, after=False)
    with connection.execute_wrapper(bomb), CaptureQueriesContext(connection) as seen:
        services.start("chaos fan", EMPTY)
        recovery.settle()
    # Django also logs the start and the end of transactions. Only SQLite starts them by a
    # statement.
    edges = ["COMMIT", "ROLLBACK", "BEGIN"][: 2 if connection.vendor == "sqlite" else 3]
    assert bomb.count == len([one for one in seen if one["sql"] not in edges]) > 20
