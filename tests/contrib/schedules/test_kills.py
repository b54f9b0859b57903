"""Crashes before and after every statement of a sweep: each due time has exactly one run."""

from __future__ import annotations

import pytest
from django.db.models.functions import Now

from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.models import Run
from tests import processes
from tests.chaos import invariants, victim
from tests.chaos.crash_points import SIDES

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("after", SIDES)
def test_sweep_killed_at_any_statement_starts_one_run_per_due_time(
    after: bool,
) -> None:
    crashes = survivors = 0
    while not survivors:
        crashes += 1
        Schedule.objects.all().delete()
        made = create_schedule("steps", "0 7 * * *", {"log": []})
        Schedule.objects.update(next_at=Now())
        process = processes.start(victim.call, start_due, crashes, after)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, victim.CRASHED)
        survivors += not process.exitcode

        row = Schedule.objects.get()
        runs = Run.objects.filter(key__startswith=f"schedule:{made.id}:")
        assert runs.count() == row.started
        assert invariants.faults() == []
        # The next sweep starts only the missing runs.
        assert len(start_due()) == 1 - row.started
        assert runs.count() == 1
    assert crashes > 5
