"""Two workers killed repeatedly at random times."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.db.models import Q

from hitl_django.models import Run, Thread
from tests import processes

from . import invariants, recovery, victim
from .graphs import Effects, end_of

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
]

#: Maximum lifetime of a worker in seconds.
LIFE = 0.08
#: Number of kills after which all workers are killed and all rows are checked.
PAUSE = 50


class Workers:
    """Two working processes, one of which is killed at a time."""

    def __init__(self, marks: Path, chance: Random) -> None:
        self.marks, self.chance = marks, chance
        self.alive: list[Any] = [None, None]

    def hire(self) -> None:
        """Start the missing processes, and wait until all are working."""
        pipes = []
        for place, process in enumerate(self.alive):
            if process is None:
                ours, theirs = processes.SERVER.Pipe(duplex=False)
                seed = self.chance.getrandbits(32)
                self.alive[place] = processes.start(victim.toil, self.marks, seed, theirs)
                pipes.append(ours)
        for pipe in pipes:
            assert pipe.poll(processes.PATIENCE)
            pipe.recv()

    def kill(self, place: int) -> None:
        processes.kill(self.alive[place])
        assert self.alive[place].exitcode == -9
        self.alive[place] = None

    def kill_all(self) -> None:
        for place, process in enumerate(self.alive):
            if process is not None:
                self.kill(place)


def record_worker_states(seen: dict[str, int], effects: Effects) -> None:
    tasks = invariants.finished_in(Q(runs__state__in=Run.ACTIVE))
    begun = Counter(effects.begun())
    for task in tasks:
        seen.setdefault(task, begun[task])


@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
@pytest.mark.promise("P10")
def test_runs_of_workers_killed_at_random_lose_and_repeat_no_writes(
    effects: Effects,
    amount: Callable[[int, int], int],
    chance: Random,
    settings: Any,
    figures: Callable[[str], None],
) -> None:
    # At this rate, a run may be killed repeatedly before it makes progress. Another test covers the
    # parking of such runs.
    settings.HITL = {**recovery.IMPATIENT, "MAX_ATTEMPTS": 1000}
    points = amount(100, 500)
    workers = Workers(effects.path, chance)
    seen: dict[str, int] = {}
    try:
        for point in range(1, points + 1):
            workers.hire()
            if point % 3 == 0:
                effects.wait_for_more()
            threading.Event().wait(chance.uniform(0, LIFE))
            workers.kill(chance.randrange(2))
            record_worker_states(seen, effects)
            if point % PAUSE == 0:
                workers.kill_all()
                assert invariants.faults(effects=effects) == []
    finally:
        workers.kill_all()
    left = Run.objects.exclude(state="succeeded").count()
    recovery.settle()

    assert invariants.faults(effects=effects) == []
    assert (invariants.unfinished(), invariants.astray()) == ([], [])
    runs = Run.objects.select_related("thread")
    assert {run.state for run in runs} == {"succeeded"}
    ended = {run.thread_id: end_of(run.graph) for run in runs}
    for record in invariants.records():
        state = invariants.values_of(record, invariants.head_of(record))
        assert (state["total"], state["answers"]) == ended[record.thread.pk]
    # No function whose writes were stored has started again.
    begun = Counter(effects.begun())
    assert {task: begun[task] for task in seen} == seen
    figures(report(points, left, effects))


def report(points: int, left: int, effects: Effects) -> str:
    """Return a summary of the kills. Fail if no function was repeated."""
    counted = sum(len(invariants.tasks_of(record)) for record in invariants.records())
    begun, done = len(effects.begun()), len(effects.done())
    claims = sum(Thread.objects.values_list("epoch", flat=True))
    assert done > counted
    return (
        f"{points} kills: 0 writes lost or duplicated; {Run.objects.count()} runs succeeded, "
        f"{left} of them active at the last kill; {claims} claims, {begun} functions started, "
        f"{done} finished, {counted} stored"
    )
