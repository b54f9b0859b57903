"""Work on ratings: in the sweep, for the doctor, and with an assignment."""

from __future__ import annotations

from collections.abc import Iterator

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.write_batch import WriteBatch
from hitl_django.extensions import Event, Finding

from .models import Rating

_NEW = BulkInsert(Rating, ["interrupt_id", "stars", "remark", "rater_label"], fresh=True)


def prepare_rating(batch: WriteBatch, event: Event) -> None:
    if event.name == "interrupt.assigned" and event.data["to"]:
        batch.insert(_NEW, [[event.data["interrupt_id"], 0, "", ""]])


def delete_empty() -> None:
    Rating.objects.filter(stars=0).delete()


def report_missing() -> Iterator[Finding]:
    if not Rating.objects.exists():
        yield Finding("note", "Nobody has rated an interrupt.")
