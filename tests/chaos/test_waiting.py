"""A crash at any statement while runs wait for a thread: each begins, once, in its turn."""

from __future__ import annotations

import pytest

from hitl_django import services
from hitl_django.models import Run, Thread
from tests import processes

from . import invariants, recovery, victim

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
]

NAMES = ["one", "two", "three"]


def line_up(thread_id: str) -> str:
    """Starts three runs on a thread; returns the one that is under way."""
    first, *_ = (
        services.start("steps", {"log": [name]}, thread_id=thread_id, on_pending="wait")
        for name in NAMES
    )
    return str(first.id)


def names_in(thread_id: str) -> list[str]:
    state = services.thread_state(thread_id)
    assert state is not None
    return [word for word in state.values["log"] if word in NAMES]


@pytest.mark.promise("P6")
@pytest.mark.promise("P8")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_runs_that_wait_begin_once_and_in_order_whatever_crashes(after: bool) -> None:
    crashes = survivors = 0
    while not survivors:
        crashes += 1
        process = processes.start(victim.advance, line_up(str(crashes)), crashes, after)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, victim.CRASHED)
        survivors += not process.exitcode
        assert invariants.faults() == []
        begun = names_in(str(crashes))
        assert begun == NAMES[: len(begun)]
        # Nothing but messages has moved the one that survived.
        assert not survivors or begun == NAMES
    assert crashes > 20
    assert invariants.astray() == []

    recovery.settle()

    assert (invariants.faults(), invariants.unfinished(), invariants.astray()) == ([], [], [])
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    assert Run.objects.count() == len(NAMES) * crashes
    for thread_id in Thread.objects.values_list("thread_id", flat=True):
        assert names_in(thread_id) == NAMES
