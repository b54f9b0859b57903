"""Moves of threads into the archive and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from hitl_django.db.retry import retry_on_conflict
from hitl_django.encryption import find_key_ring
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.models.search import build_search_text
from hitl_django.models.thread_tables import list_thread_tables

from .document import ArchivedRows, read_document, write_document
from .models import ArchivedThread
from .partitions import make_partitions


def select_archivable(using: str, days: float) -> QuerySet[Thread]:
    """Return the threads that ended at least ``days`` days ago and can be archived.

    Threads that were restored less than ``days`` days ago are excluded. Threads to which rows of
    the project refer are also excluded, because archiving would delete or change these rows.
    """
    before = Now() - timedelta(days=days)
    rested = Q(restored_at__isnull=True) | Q(restored_at__lt=before)
    threads = Thread.objects.using(using).filter(rested, ended_at__lt=before, has_waiting=False)
    for reference in _foreign_references():
        threads = threads.exclude(reference)
    return threads


def create_partitions_for(threads: QuerySet[Thread]) -> None:
    """Create the database partitions that archiving these threads needs.

    On databases without partitions, nothing happens.
    """
    moments = threads.values_list("ended_at", flat=True)
    make_partitions(threads.db, [at for at in moments if at is not None])


@retry_on_conflict
def archive_threads(threads: QuerySet[Thread]) -> list[int]:
    """Archive the given threads in one transaction, except threads that are locked.

    Return the primary keys of the archived threads. The partitions for the threads must exist.

    Raises:
        PayloadError: if a row is too large for a document. No thread is archived.
    """
    using = threads.db
    with transaction.atomic(using=using):
        # Check again with the lock, because a run may have been started in the meantime.
        ended = threads.exclude(Run.exists_active()).select_for_update(
            skip_locked=True, of=("self",)
        )
        chosen = list(ended.values_list("pk", flat=True))
        if not chosen:
            return []
        found = _read_rows(using, chosen)
        archived = [_make_archived(rows) for rows in found.values()]
        ArchivedThread.objects.using(using).bulk_create(archived)
        _, deleted = Thread.objects.using(using).filter(pk__in=chosen).delete()
        # Delete only the archived rows. Rows that were added without the thread's lock must not be
        # lost.
        stored = Counter(row._meta.label for rows in found.values() for row in _all_rows(rows))
        if Counter({label: count for label, count in deleted.items() if count}) != stored:
            raise RuntimeError("The thread changed while it was being archived.")
    return chosen


@retry_on_conflict
def unarchive(archived: QuerySet[ArchivedThread]) -> Thread | None:
    """Move one archived thread back to its tables, and return the thread.

    ``archived`` selects the thread. If ``archived`` is empty, None is returned. The rows are
    unchanged, except for references to rows that no longer exist, for example to deleted users.

    Raises:
        IntegrityError: if another thread or run uses the same id or key.
    """
    using = archived.db
    with transaction.atomic(using=using):
        found = list(archived.select_for_update().order_by()[:1])
        if not found:
            return None
        (row,) = found
        rows = read_document(row)
        (thread,) = rows[Thread]
        if find_key_ring() is not None:
            _reduce_search_texts(rows)
        for model, each in rows.items():
            _clear_dangling(using, model, each)
            model._default_manager.using(using).bulk_create(each)
        Thread.objects.using(using).filter(pk=thread.pk).update(restored_at=Now())
        ArchivedThread.objects.using(using).filter(pk=row.pk).delete()
    return Thread.objects.using(using).get(pk=thread.pk)


def _read_rows(using: str, chosen: Sequence[int]) -> dict[int, dict[type[models.Model], list[Any]]]:
    tables = list_thread_tables()
    found: dict[int, dict[type[models.Model], list[Any]]] = {
        pk: {model: [] for model in tables} for pk in chosen
    }
    for model, lookup in tables.items():
        rows = model._default_manager.using(using).filter(**{f"{lookup}__in": chosen})
        owner = models.F("pk" if lookup == "pk" else lookup)
        for row in rows.annotate(owner=owner).order_by("pk"):
            found[row.owner][model].append(row)
    return found


def _all_rows(rows: ArchivedRows) -> Iterator[models.Model]:
    for each in rows.values():
        yield from each


def _make_archived(rows: ArchivedRows) -> ArchivedThread:
    thread: Any = rows[Thread][0]
    runs: list[Any] = sorted(rows[Run], key=lambda run: (run.created_at, run.pk))
    document, its_digest = write_document(rows)
    return ArchivedThread(
        id=thread.pk,
        thread_id=thread.thread_id,
        graph=thread.graph,
        key=runs[0].key if runs else None,
        subject_type_id=thread.subject_type_id,
        subject_id=thread.subject_id,
        state=_find_last_state(runs),
        runs=len(runs),
        interrupts=len(rows[Interrupt]),
        started_at=thread.created_at,
        ended_at=thread.ended_at,
        document=document,
        digest=its_digest,
    )


def _find_last_state(runs: Sequence[Run]) -> str:
    """Return the state of the newest run that was started.

    If no run was started, the state of the newest run is returned.
    """
    begun = [run for run in runs if run.input is None] or runs
    return begun[-1].state if begun else ""


def _clear_dangling(using: str, model: type[models.Model], rows: Sequence[Any]) -> None:
    tables = list_thread_tables()
    for field in model._meta.concrete_fields:
        target: Any = field.related_model if field.is_relation else None
        if target is None or target in tables:
            continue
        named = {getattr(row, field.attname) for row in rows} - {None}
        if not named:
            continue
        there = set(
            target._base_manager.using(using).filter(pk__in=named).values_list("pk", flat=True)
        )
        for row in rows:
            if getattr(row, field.attname) not in there:
                setattr(row, field.attname, None)


def _reduce_search_texts(rows: ArchivedRows) -> None:
    """Remove the words of encrypted columns, such as the payload, from the search texts.

    Search texts that were stored before encryption was enabled contain these words.
    """
    (thread,), found = rows[Thread], rows[Interrupt]
    keys: dict[Any, Any] = {run.pk: getattr(run, "key", None) for run in rows[Run]}
    asked: Any
    for asked in found:
        if asked.search_text is not None:
            subject = getattr(thread, "subject_id", None)
            names = (asked.title, asked.node, keys[asked.run_id], subject)
            asked.search_text = build_search_text(*names)


def _foreign_references() -> Iterator[Exists]:
    """Yield a condition on threads for each foreign key of the project's models.

    A thread matches if a row of the project refers to the thread or to a row of the thread.
    """
    tables = list_thread_tables()
    for model, lookup in tables.items():
        for relation in model._meta.related_objects:
            if relation.related_model._meta.concrete_model in tables:
                continue
            path = relation.field.name if lookup == "pk" else f"{relation.field.name}__{lookup}"
            rows: Any = relation.related_model._base_manager
            yield Exists(rows.filter(**{path: OuterRef("pk")}))
