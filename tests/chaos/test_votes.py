"""Crashes before and after every statement of an approval: a complete approval or none."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from hitl_django import services, testing
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from tests import processes

from . import invariants, victim
from .crash_points import SIDES

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

#: Actions of the first and the second of two reviewers, and the version on which they agree.
WAYS: dict[str, tuple[list[dict[str, Any]], int]] = {
    "approving": ([{"type": "approve"}, {"type": "approve"}], 1),
    "proposing": ([{"type": "edit", "value": {"text": "y"}}, {"type": "approve"}], 2),
}


def waiting() -> Interrupt:
    with testing.inline() as advance:
        run = services.start("approval", {"text": "x"})
        advance()
    Interrupt.objects.filter(run=run.id).update(quorum=2)
    return Interrupt.objects.get(run=run.id)


@pytest.mark.promise("P3")
@pytest.mark.parametrize("after", SIDES)
@pytest.mark.parametrize("way", WAYS)
def test_approval_killed_at_any_statement_is_stored_completely_or_rolled_back(
    way: str, after: bool
) -> None:
    for number in range(2):
        User.objects.create_superuser(f"voter-{number}")
    votes, version = WAYS[way]
    for number, vote in enumerate(votes):
        crashes = survivors = 0
        while not survivors:
            crashes += 1
            interrupt = waiting()
            for before in range(number):
                voter = User.objects.get(username=f"voter-{before}")
                services.decide(interrupt.pk, **votes[before], by=voter)
            pk = str(interrupt.pk)
            process = processes.start(victim.vote, pk, vote, number, crashes, after)
            process.join(processes.PATIENCE)
            assert process.exitcode in (0, victim.CRASHED)
            survivors += not process.exitcode

            made = Decision.objects.filter(interrupt=interrupt).count()
            assert made in (number, number + 1)
            if not process.exitcode:
                assert made == number + 1
            entries = AuditEntry.objects.filter(subject=str(interrupt.pk)).count()
            assert entries == made
            state = Run.objects.get(pk=interrupt.run_id).state
            assert state == ("queued" if made == 2 else "interrupted")
            assert invariants.faults() == []

            # A reviewer without a confirmation repeats the decision.
            voter = User.objects.get(username=f"voter-{number}")
            again = services.decide(pk, **vote, by=voter, key="once")
            assert again.repeated == (made == number + 1)
            assert (again.approvals, again.complete) == (number + 1, number == 1)
        assert crashes > 5
    last = Interrupt.objects.order_by("-created_at")[0]
    closing = last.closing()
    assert closing is not None
    assert closing.version == version
    assert invariants.faults() == []
