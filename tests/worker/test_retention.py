"""Order and index with which retention reads ended threads."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from hitl_django.models import Thread
from hitl_django.worker import retention
from tests.services.test_queue_order import plan

pytestmark = pytest.mark.django_db


def looks_at_ended(size: int) -> list[list[int]]:
    return list(retention.iterate_batches(retention._select_ended("default", 30), size))


def test_retention_batches_include_each_of_simultaneously_ended_threads_once() -> None:
    at = timezone.now() - timedelta(days=50)
    for number in range(10):
        Thread.objects.create(thread_id=str(number), ended_at=at)
    ended = set(Thread.objects.values_list("pk", flat=True))
    Thread.objects.create(thread_id="goes on")
    looks = looks_at_ended(4)
    assert [len(look) for look in looks] == [4, 4, 2]
    assert {pk for look in looks for pk in look} == ended


def test_retention_batches_order_threads_by_end_time() -> None:
    for number in range(6):
        at = timezone.now() - timedelta(days=50 + number // 3)
        Thread.objects.create(thread_id=str(number), ended_at=at)
    in_order = list(Thread.objects.order_by("ended_at", "pk").values_list("pk", flat=True))
    assert [pk for look in looks_at_ended(2) for pk in look] == in_order
    assert in_order != sorted(in_order)


def test_retention_query_reads_ended_threads_from_index_without_sorting() -> None:
    found = plan(retention._select_ended("default", 30).order_by("ended_at", "pk")[:10])
    assert "hitl_thread_ended" in found, found
    assert "sort" not in found.lower(), found
    assert "TEMP" not in found, found
