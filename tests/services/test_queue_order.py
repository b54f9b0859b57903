"""The order of the queue, read from the beginning of one index."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.models import Interrupt, ReviewItem
from hitl_django.models.review import queue_order
from hitl_django.services.reviews import queue_filters

#: Plans that PostgreSQL may choose for the few rows of a test, depending on its statistics.
OTHER_WAYS = ("seqscan", "bitmapscan", "sort", "incremental_sort", "hashjoin", "mergejoin")


def plan(rows: object) -> str:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for way in OTHER_WAYS:
                cursor.execute(f"SET LOCAL enable_{way} = off")
    return str(rows.explain())


@pytest.mark.django_db
def test_queue_page_query_reads_queue_index_without_sorting() -> None:
    for rows in (
        ReviewItem.pending.all(),
        queue_filters.list_pending(None).filter(queue_filters.AWAKE).order_by(*queue_order()),
        queue_filters.list_pending(None)
        .filter(queue_filters.UNCLAIMED, queue_filters.AWAKE)
        .order_by(*queue_order()),
    ):
        found = plan(rows.defer("payload")[:50])
        assert "hitl_interrupt_queue" in found, found
        assert "TEMP B-TREE" not in found
        assert "Sort" not in found


@pytest.mark.django_db
def test_queue_query_filtered_by_graph_or_group_reads_the_index_for_the_filter_in_order() -> None:
    crew = Group.objects.create(name="Crew")
    user = User.objects.create_user("rita")
    rows, crews, nobodys = (
        queue_filters.list_pending(None),
        *queue_filters.split_unclaimed(user, [crew.pk])[1:],
    )
    in_order(rows.filter(queue_filters.OVERDUE_PARTS[0]), "hitl_interrupt_queue")
    # With few rows, both plans have similar costs.
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX hitl_interrupt_queue")
    in_order(rows.filter(queue_filters.AWAKE, graph="typed"), "hitl_interrupt_graph")
    in_order(rows.filter(queue_filters.AWAKE, group=crew), "hitl_interrupt_group")
    in_order(rows.filter(crews), "hitl_interrupt_group")
    in_order(rows.filter(nobodys), "hitl_interrupt_unassigned")


def in_order(rows: QuerySet[Any], index: str) -> None:
    found = plan(rows.order_by(*queue_order()).values("pk")[:50])
    assert re.search(rf"{index}\b", found), found
    assert "TEMP B-TREE" not in found
    assert "Sort" not in found, found


@pytest.mark.django_db
def test_queue_search_for_common_words_reads_queue_index_without_sorting() -> None:
    found = queue_filters.Search.build(
        queue_filters.list_pending(None).order_by(*queue_order()), "refund order"
    )
    common = plan(found.find(100, 100).values("pk")[:50])
    assert "hitl_interrupt_queue" in common
    assert "Sort" not in common


@pytest.mark.django_db
def test_expiry_warning_and_overdue_queries_of_sweep_use_an_index() -> None:
    pending = Interrupt.objects.filter(queue_filters.PENDING).order_by()
    assert "hitl_interrupt_warn" in plan(pending.filter(warn_at__lte=Now()).order_by("warn_at"))
    due = pending.filter(overdue=False, due_at__lte=Now()).order_by("due_at")
    # For an empty table, SQLite may also choose the queue's own index, which begins with overdue.
    assert any(name in plan(due) for name in ("hitl_interrupt_due", "hitl_interrupt_queue"))


def test_interrupts_created_simultaneously_are_queued_in_task_order(
    advance: Callable[[], int],
) -> None:
    services.start("broad", {})
    advance()
    waiting = list(queue_filters.list_pending(None).order_by(*queue_order()))
    assert len({interrupt.task_id for interrupt in waiting}) > 5
    assert [q.task_path for q in waiting] == sorted(q.task_path for q in waiting)
