"""Crashes at any statement while runs wait for a thread: each run starts once and in order."""

from __future__ import annotations

import pytest
from django.db.models import Count

from hitl_django import services
from hitl_django.models import Checkpoint, Run
from tests import processes

from . import invariants, recovery, victim
from .crash_points import SIDES

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
]

RUNS = 2


def line_up(thread_id: str) -> str:
    first, _ = (
        services.start("fragile", {"count": 10 * number}, thread_id=thread_id, on_pending="wait")
        for number in range(RUNS)
    )
    return str(first.id)


def states_of(thread_id: str) -> list[str]:
    runs = Run.objects.filter(thread__thread_id=thread_id).order_by("created_at", "pk")
    return list(runs.values_list("state", flat=True))


@pytest.mark.promise("P6")
@pytest.mark.promise("P8")
@pytest.mark.parametrize("after", SIDES)
def test_waiting_runs_killed_at_any_statement_start_once_and_in_order(after: bool) -> None:
    crashes = survivors = 0
    while not survivors:
        crashes += 1
        process = processes.start(victim.advance, line_up(str(crashes)), crashes, after)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, victim.CRASHED)
        survivors += not process.exitcode
        assert invariants.faults() == []
        first, second = states_of(str(crashes))
        assert second == "waiting" or first == "succeeded"
        # The surviving run was changed only by messages.
        assert not survivors or (first, second) == ("succeeded", "succeeded")
    assert crashes > 20
    assert invariants.astray() == []

    recovery.settle()

    assert (invariants.faults(), invariants.unfinished(), invariants.astray()) == ([], [], [])
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    assert Run.objects.count() == RUNS * crashes
    # The number of steps shows whether each input was processed exactly once.
    assert set(Checkpoint.objects.values("thread").annotate(n=Count("pk")).values_list("n")) == {
        (3 * RUNS,)
    }
    for number, run in enumerate(Run.objects.order_by("thread", "created_at", "pk")):
        assert services.run_result(run.pk)["count"] == 10 * (number % RUNS) + 1
