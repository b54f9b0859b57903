"""Checks of ended threads, remaining rows and growth."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from uuid import UUID

from django.db import connection
from django.db.models import Count, Q
from django_q.models import OrmQ

from hitl_django.models import Run, Thread
from tests.chaos import invariants

from .hosts import Host
from .people import surely

#: Maximum growth between the second and the last quarter of a long test.
GROWTH = 1.2
#: Number of hours after which the growth is checked.
LONG = 2
MEBIBYTE = 1 << 20


@dataclass
class Reading:
    """Sizes in bytes, and counts, at one time."""

    memory: int
    threads: int
    messages: int
    stored: int


@dataclass
class Watch:
    """Checker of the runs.

    ``faults`` are the problems that it has found.
    """

    #: Number of interrupts of each active run, by run id.
    under_way: dict[UUID, int]
    hosts: list[Host]
    book: Path
    #: Maximum time that a due run may wait for a worker.
    bound: timedelta
    readings: list[Reading] = field(default_factory=list)
    calm: list[tuple[float, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    ended: int = 0

    def check(self) -> None:
        """Check the threads that have ended since the last call, and overdue runs."""
        surely(self._check)

    def read(self) -> None:
        self.readings.append(surely(self._read))

    def _check(self) -> None:
        under_way = dict(self.under_way)
        found = {
            run.pk: run
            for run in Run.objects.filter(pk__in=under_way).annotate(
                decided=Count("interrupts__decisions", Q(interrupts__decisions__effective=True))
            )
        }
        faults = [f"run {pk} is gone" for pk in under_way.keys() - found.keys()]
        ended = [run for run in found.values() if run.state in invariants.ENDED]
        faults += invariants.faults([run.thread_id for run in ended])
        for run in ended:
            expected = under_way[run.pk]
            if run.state == Run.State.SUCCEEDED and run.decided != expected:
                faults.append(f"run {run.pk} expected {expected} decisions, and has {run.decided}")
        faults += invariants.unfinished(self.bound)
        # An interrupted check stores no results.
        self.faults += faults
        self.ended += len(ended)
        for pk in {run.pk for run in ended}.union(under_way.keys() - found.keys()):
            del self.under_way[pk]

    def _read(self) -> Reading:
        return Reading(
            memory=max((host.memory() for host in self.hosts), default=0),
            threads=Thread.objects.count(),
            messages=OrmQ.objects.count(),
            stored=_size(),
        )

    def left(self) -> dict[str, int]:
        """Return the number of unfinished runs, by state."""
        rows = Run.objects.filter(pk__in=list(self.under_way)).values_list("state")
        return dict(rows.annotate(count=Count("pk")))

    def growth(self) -> list[str]:
        """Return the sizes that continued to grow after the retention had started to delete."""
        count = len(self.readings) // 4
        found = []
        for name in ("memory", "threads", "messages", "stored"):
            early = [getattr(each, name) for each in self.readings[count : 2 * count]]
            late = [getattr(each, name) for each in self.readings[-count:]]
            if early and median(late) > GROWTH * max(median(early), 1):
                found.append(f"{name} grew from {median(early):,.0f} to {median(late):,.0f}")
        return found

    def answers(self) -> list[float]:
        """Return the delays of decisions in seconds, for periods without faults."""
        lines = self.book.read_text().splitlines() if self.book.exists() else []
        times = (tuple(map(float, line.split())) for line in lines)
        return [
            noted - given
            for given, noted in times
            if any(begin <= given <= end for begin, end in self.calm)
        ]


def format_reading(reading: Reading) -> str:
    return (
        f"{reading.threads:,} threads and {reading.messages:,} messages stored in "
        f"{reading.stored / MEBIBYTE:,.0f} MiB; the largest process holds "
        f"{reading.memory / MEBIBYTE:,.0f} MiB"
    )


def percentiles(times: list[float]) -> str:
    """Return the median and the 99th percentile of the times as text."""
    if len(times) < 100:
        return f"{len(times)} answers while all was well, too few to say how long they take"
    cuts = quantiles(times, n=100)
    return (
        f"{len(times)} answers while all was well: half of them were with their node within "
        f"{cuts[49]:.2f} s, 99 of 100 within {cuts[98]:.2f} s"
    )


def _size() -> int:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        else:
            cursor.execute("SELECT pg_database_size(current_database())")
        (size,) = cursor.fetchone()
    return int(size)
