"""Crashes before and after every statement of a fork: a complete fork or none."""

from __future__ import annotations

import pytest

from hitl_django import services
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, Thread
from tests import processes

from . import invariants, recovery, victim
from .crash_points import SIDES
from .graphs import EMPTY, Effects, end_of

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
]

SHAPE = "chaos fan"


def waiting() -> tuple[str, str]:
    info = services.start(SHAPE, EMPTY)
    recovery.settle(answering=False)
    at = Checkpoint.objects.get(thread__thread_id=info.thread_id, ns="", step=1)
    return info.thread_id, at.checkpoint_id


def faults_but_for_branches(effects: Effects) -> list[str]:
    return [one for one in invariants.faults(effects=effects) if " chains: " not in f" {one}"]


@pytest.mark.promise("P3")
@pytest.mark.promise("P6")
@pytest.mark.promise("P20")
@pytest.mark.parametrize("after", SIDES)
def test_thread_fork_killed_at_any_statement_is_stored_completely_or_rolled_back(
    after: bool, effects: Effects
) -> None:
    crashes, made, survivors = 0, 0, 0
    while survivors < 2:
        crashes += 1
        thread, at = waiting()
        process = processes.start(victim.fork, thread, at, crashes, after)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, victim.CRASHED)
        survivors += not process.exitcode
        runs = list(Run.objects.filter(thread__thread_id=thread).order_by("created_at"))
        asked = set(
            Interrupt.objects.filter(run=runs[0]).values_list("status", flat=True).distinct()
        )
        forks = Checkpoint.objects.filter(thread__thread_id=thread, source="fork").count()
        entries = AuditEntry.objects.filter(thread__thread_id=thread, verb="fork").count()
        told = ([run.state for run in runs], asked, forks, entries)
        # Check immediately, before any recovery.
        if len(runs) == 2:
            made += 1
            assert told == (["cancelled", "queued"], {"superseded"}, 1, 1)
        else:
            assert told == (["interrupted"], {"pending"}, 0, 0)
            assert process.exitcode == victim.CRASHED
    assert crashes > 10
    assert made >= survivors
    assert faults_but_for_branches(effects) == []
    assert invariants.astray() == []

    recovery.settle()

    assert faults_but_for_branches(effects) == []
    assert (invariants.unfinished(), invariants.astray()) == ([], [])
    for record in invariants.records():
        assert max(record.runs, key=lambda run: run.created_at).state == "succeeded"
        state = invariants.values_of(record, invariants.head_of(record))
        assert (state["total"], sorted(state["answers"])) == end_of(SHAPE)
    assert Thread.objects.count() == crashes
