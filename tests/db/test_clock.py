"""The database's clock: occasional reads, extrapolated in between."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.db.models import DurationField, Value

from hitl_django.db import clock
from hitl_django.models import Thread
from hitl_django.models.functions import Now, TimeFromNow
from tools.benchmarks.counts import counting

pytestmark = pytest.mark.django_db(transaction=True)


def looked() -> int:
    with counting() as counts:
        clock.read_clock("default")
    return counts.statements


@pytest.mark.database("postgresql")
def test_read_clock_queries_the_database_at_most_once_a_minute() -> None:
    clock.forget()
    with patch.object(clock, "monotonic", return_value=100.0) as now:
        assert [looked(), looked()] == [1, 0]
        read = clock.read_clock("default")
        now.return_value = 100.0 + clock.KEEP_SECONDS - 1
        assert clock.read_clock("default") - read == timedelta(seconds=clock.KEEP_SECONDS - 1)
        now.return_value = 100.0 + clock.KEEP_SECONDS
        assert looked() == 1
        assert clock.read_clock("default") - read < timedelta(seconds=clock.KEEP_SECONDS - 1)


def test_read_clock_returns_the_time_of_the_database() -> None:
    clock.forget()
    Thread.objects.create(thread_id="a")
    rows = Thread.objects.annotate(clock=Now()).values_list("clock", flat=True)
    before, said, after = rows.get(), clock.read_clock("default"), rows.get()
    # SQLite's clock has a resolution of milliseconds.
    assert before <= said <= after + timedelta(milliseconds=1)


def test_time_from_now_adds_a_duration_to_the_time_of_the_database() -> None:
    durations = [timedelta(seconds=30), timedelta(milliseconds=-1500), timedelta(days=400), None]
    for duration in durations:
        thread = Thread.objects.create(thread_id=f"{duration}")
        later = TimeFromNow(Value(duration, DurationField()))
        Thread.objects.filter(pk=thread.pk).update(lease_until=later, ended_at=Now())
        thread.refresh_from_db()
        assert thread.ended_at is not None
        ends = None if duration is None else thread.ended_at + duration
        assert thread.lease_until == ends
