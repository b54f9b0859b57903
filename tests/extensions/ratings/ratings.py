"""Functions of ratings for the sweep, for ``hitl doctor`` and for assignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.write_batch import WriteBatch
from hitl_django.events import publish
from hitl_django.extensions import Event, Finding, OverviewRow, OverviewTable
from hitl_django.permissions import select_visible
from hitl_django.task_queue.dispatcher import enqueue_task

from .models import Rating

#: The event of a new assignment, and the task that follows it.
REQUESTED, REMIND = "rating.requested", f"{__name__}.remind"
_NEW = BulkInsert(Rating, ["interrupt_id", "stars", "remark", "rater_label"], fresh=True)


def prepare_rating(batch: WriteBatch, event: Event) -> None:
    if event.name == "interrupt.assigned" and event.data["to"]:
        interrupt_id = event.data["interrupt_id"]
        batch.insert(_NEW, [[interrupt_id, 0, "", ""]])
        publish(batch, REQUESTED, event.graph, interrupt_id=interrupt_id)
        enqueue_task(REMIND, interrupt_id, batch)


def remind(interrupt_id: str) -> None:
    Rating.objects.filter(interrupt=interrupt_id, stars=0).update(remark="Please rate this.")


def delete_empty() -> None:
    Rating.objects.filter(stars=0).delete()


def report_missing() -> Iterator[Finding]:
    if not Rating.objects.exists():
        yield Finding("note", "Nobody has rated an interrupt.")


def list_bad(user: Any) -> OverviewTable | None:
    rows = select_visible(Rating.objects.filter(stars=1), user).order_by("-pk")[:5]
    if not rows:
        return None
    return OverviewTable(
        title="Bad ratings",
        model=Rating,
        columns=["Rater", "Stars"],
        rows=[OverviewRow([row.rater_label, row.stars], row.pk, row.remark, "bad") for row in rows],
    )
