"""Runs that kill their workers, and runs that exceed the memory limit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django_q.models import OrmQ

from hitl_django import services
from hitl_django.conf import hitl
from hitl_django.models import AuditEntry, Run, Thread
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep
from tests import processes

from . import invariants, recovery, victim
from .graphs import EMPTY, Effects, end_of, in_mode

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.promise("P11"),
]


def let_time_pass() -> None:
    leased = Thread.objects.filter(lease_until__isnull=False)
    leased.update(lease_until=Now() - timedelta(seconds=1))
    Run.objects.update(last_message_at=Now() - timedelta(hours=1))


@pytest.mark.parametrize(
    ("node", "mode"), [("a", "sync"), ("b", "sync"), ("b", "async"), ("b", "exit")]
)
def test_run_whose_worker_dies_at_each_attempt_is_parked_after_max_attempts(
    node: str, mode: str, effects: Effects
) -> None:
    run = services.start(in_mode("chaos line", mode), EMPTY).id
    # A step that is stored before the crash in the next step counts as progress once.
    most = hitl.MAX_ATTEMPTS * 2 - 1 if mode == "async" else hitl.MAX_ATTEMPTS
    victims = 0
    while recovery.state_of(run) != Run.State.PARKED:
        OrmQ.objects.all().delete()
        process = processes.start(victim.die_in, str(run), node, effects.path)
        process.join(processes.PATIENCE)
        victims += process.exitcode == -9
        assert victims <= most
        let_time_pass()
    assert hitl.MAX_ATTEMPTS <= victims <= most
    row = Run.objects.get(pk=run)
    assert f"{hitl.MAX_ATTEMPTS} times" in row.error
    assert invariants.faults(effects=effects) == []

    # No worker claims the parked run again, and other runs continue.
    OrmQ.objects.all().delete()
    let_time_pass()
    sweep()
    runner.advance(str(run))
    assert (OrmQ.objects.count(), recovery.state_of(run)) == (0, "parked")
    other = services.start("chaos fan", EMPTY).id
    recovery.settle()
    assert recovery.state_of(other) == "succeeded"

    # After the fix, the run resumes from its last checkpoint, and the audit log names the operator.
    services.retry(run)
    assert AuditEntry.objects.filter(thread=row.thread, verb="retry").count() == 1
    recovery.settle()
    assert recovery.state_of(run) == "succeeded"
    assert invariants.faults(effects=effects) == []
    (record,) = invariants.records([row.thread_id])
    assert len(invariants.tasks_of(record)) == end_of("chaos line")[0]


def test_memory_error_in_node_fails_only_the_run_of_the_node() -> None:
    run, other = (str(services.start("chaos line", EMPTY).id) for _ in range(2))
    process = processes.start(victim.starve, run, "b", other)
    process.join(processes.PATIENCE)
    assert process.exitcode == 0
    row = Run.objects.get(pk=run)
    assert (row.state, row.error) == ("failed", "MemoryError: ")
    assert recovery.state_of(other) == "interrupted"
    assert invariants.faults() == []
    services.retry(run)
    recovery.settle()
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
