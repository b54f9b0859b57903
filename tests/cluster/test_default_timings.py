"""Workers with default timings, of which single processes are killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest
from django.db.models.functions import Now

from hitl_django.models import Run, Thread
from tests.chaos import invariants

from .conftest import Cluster, all_succeeded, start_laps

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.any_database,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
]

AT_ONCE = 4  # number of runs: the two workers execute two, and the others wait
ENDED = ("succeeded", "failed", "parked")


class Watch:
    """The time from a kill until another worker claims each active run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.count = 0
        self._since: dict[str, tuple[int, float]] = {}  # epoch and start time by run

    def begin(self, living: Iterable[psutil.Process]) -> None:
        """Start the clock of each run that waits or is executed by a surviving process.

        The clock of a run starts again with a new message or epoch: the previous one may have been
        with the killed process.
        """
        pids = {process.pid for process in living}
        for run in Run.objects.select_related("thread").exclude(state__in=ENDED):
            now = (run.thread.epoch, time.monotonic())
            self._since.setdefault(str(run.pk), now)
            if has_message(run) or holder(run.thread.lease_owner) in pids:
                self._since[str(run.pk)] = now

    def look(self) -> None:
        now = time.monotonic()
        for run in Run.objects.select_related("thread").filter(pk__in=self._since):
            epoch, since = self._since[str(run.pk)]
            if run.state in ENDED or run.thread.epoch > epoch:
                del self._since[str(run.pk)]
                self.longest, self.count = max(self.longest, now - since), self.count + 1
        for _, since in self._since.values():
            self.longest = max(self.longest, now - since)

    def is_over(self) -> bool:
        return not self._since


def has_message(run: Run) -> bool:
    until = run.thread.lease_until
    return run.state == Run.State.QUEUED or (until is not None and run.last_message_at > until)


def holder(owner: str) -> int:
    return int(owner.split(":")[1]) if owner else 0


def family(cluster: Cluster) -> list[psutil.Process]:
    return psutil.Process(cluster.process.pid).children(recursive=True)


def holders(cluster: Cluster) -> list[psutil.Process]:
    owners = Thread.objects.filter(lease_until__gt=Now()).values_list("lease_owner", flat=True)
    holding = {holder(owner) for owner in owners}
    return [process for process in family(cluster) if process.pid in holding]


@pytest.mark.promise("P7")
def test_run_of_killed_worker_is_resumed_within_lease_and_sweep_period(
    cluster: Callable[..., Cluster],
    book: Path,
    amount: Callable[[int, int], int],
    chance: Random,
    figures: Callable[[str], None],
) -> None:
    supervised = cluster("hitl", "worker", TEST_HITL="{}").ready()
    watch, kills = Watch(), 0
    runs = start_laps(book, AT_ONCE, laps=8, seconds=1)
    supervised.wait_for(lambda: bool(holders(supervised)))
    end = time.monotonic() + amount(0, 3600)
    while True:
        victims = family(supervised) if kills % 2 else holders(supervised)
        with suppress(psutil.NoSuchProcess, IndexError):
            victim = chance.choice(victims)
            watch.begin(family(supervised))
            victim.kill()
            kills += 1
        following = time.monotonic() + chance.uniform(10, 40)
        if following > end:
            break
        while time.monotonic() < following:
            watch.look()
            missing = AT_ONCE - Run.objects.exclude(state__in=ENDED).count()
            runs += start_laps(book, missing, laps=8, seconds=1)
            threading.Event().wait(0.25)

    def settled() -> bool:
        watch.look()
        return watch.is_over() and all_succeeded(runs)()

    supervised.wait_for(settled)
    # Thirty seconds each, plus the time for polling. Pauses of the machine are not counted.
    assert watch.longest <= amount(600, 65)
    assert (invariants.faults(), invariants.unfinished()) == ([], [])
    figures(
        f"{kills} processes killed, default timings: of {watch.count} active runs the last was "
        f"claimed again after {watch.longest:.1f} s"
    )
