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
    """Has one process crash at each statement, each with a run of its own; returns their keys."""
    keys: list[str] = []
    survivors = 0
    # How many statements a run takes varies a little: tasks that run side by side are stored
    # together or apart. So the first to survive need not have come past all there are.
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
    # A crash costs the tasks of one super-step at most.
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
def test_async_or_exit_durability_run_killed_at_any_statement_loses_no_writes(
    shape: str, after: bool, mode: str, effects: Effects
) -> None:
    # It costs the tasks of two super-steps, or all since the last pause.
    assert spend_by_crashes(in_mode(shape, mode), after, effects) <= 4


def spend_by_crashes(shape: str, after: bool, effects: Effects) -> float:
    """Crash runs at each statement and check the rows, immediately and after recovery.

    Return the number of repeated function calls per crash.
    """
    keys = crash_everywhere(shape, effects.path, after)
    assert len(keys) > 15
    # At once, before anybody has cleared up: nothing is there by half.
    assert invariants.faults(effects=effects) == []
    assert invariants.astray() == []
    assert not Thread.objects.filter(runs__isnull=True).exists()
    # The same reviewer, who never heard that the answer had arrived, gives it again.
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
    # Django logs the edges of transactions too; only on SQLite is their beginning a statement.
    edges = ["COMMIT", "ROLLBACK", "BEGIN"][: 2 if connection.vendor == "sqlite" else 3]
    assert bomb.count == len([one for one in seen if one["sql"] not in edges]) > 20
