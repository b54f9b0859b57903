"""Interrupts of a paused run as rows of the review queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import F

from hitl_django import audit, events, signals
from hitl_django.answers import read_options
from hitl_django.checkpoints import DjangoSaver
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored
from hitl_django.db.write_batch import WriteBatch
from hitl_django.encryption import find_key_ring
from hitl_django.engine.savers.checkpoint import PendingInterrupt
from hitl_django.engine.types import Expiry
from hitl_django.events import EventName
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.leases import lock_thread
from hitl_django.models import Decision, Interrupt, Thread
from hitl_django.models.fields import digest_json
from hitl_django.models.functions import Now
from hitl_django.models.review import get_closed_columns
from hitl_django.models.search import build_search_text, index_text

from . import queries
from .interrupt_columns import REVIEW_COLUMNS, build_assignment_columns, build_review_columns
from .lease import RunLease

NODE_LENGTH, REFUSAL_LENGTH = 255, 10_000
WORKER = "worker"
PENDING = Interrupt.Status.PENDING


def create_interrupts(
    lease: RunLease, batch: WriteBatch, pending_interrupts: Sequence[PendingInterrupt]
) -> list[str]:
    """Add rows for the interrupts to the batch, and return the ids of these rows.

    Use this function if the thread has never had an interrupt, otherwise ``sync_interrupts``.
    """
    rows = [_build_row(lease, pending, batch.using) for pending in pending_interrupts]
    _insert(rows, batch)
    _publish_created(lease, rows, batch)
    if any(pending.expires for pending in pending_interrupts):
        batch.before_commit(partial(_set_expiry, rows, batch.using))
    if any(pending.review_options for pending in pending_interrupts):
        batch.before_commit(partial(_set_due, rows, pending_interrupts, batch.using))
    batch.after_write(partial(_signal_created, lease, rows, batch.using))
    return [str(row.pk) for row in rows]


def sync_interrupts(
    lease: RunLease, pending_interrupts: Sequence[PendingInterrupt], using: str
) -> tuple[bool, list[str]]:
    """Update the review queue to contain exactly the given interrupts of the run.

    Return whether the run can resume, and the ids of the pending interrupts. Depending on the
    graph's review policy, the run can resume if one of the interrupts has been decided, or if all
    of them have been decided. Pending interrupts keep their row. If the content of an interrupt has
    changed, its version is incremented, so that decisions on the old content are rejected. An
    interrupt with a rejected response becomes pending again.
    """
    reopened: list[Interrupt] = []
    ids = [pending.interrupt.id for pending in pending_interrupts]
    known = _read_known(lease, ids, using)
    unknown = [pending for pending in pending_interrupts if pending.interrupt.id not in known]
    new = [_build_row(lease, pending, using) for pending in unknown]
    for pending in pending_interrupts:
        row = known.get(pending.interrupt.id)
        if row is None:
            continue
        if pending.refusal and row.is_answered:
            _refuse_answer(lease, row, pending.refusal, using)
            reopened.append(row)
        if not row.is_answered or row in reopened:
            _raise_again(row, _build_row(lease, pending, using), pending, using)
    # Other pending interrupts belong to tasks that no longer create them.
    waiting = {found for (found,) in queries.WAITING.run(using, run=lease.run_id)}
    if not waiting.issubset(ids):
        supersede_interrupts(lease, using, stays=ids)
    batch = WriteBatch(using)
    _insert(new, batch)
    _publish_created(lease, [*new, *reopened], batch)
    batch.run()
    _set_expiry(new, using)
    _set_due(new, unknown, using)
    _signal_created(lease, [*new, *reopened], using)
    done = [row for row in known.values() if row.is_answered and row not in reopened]
    open_ = [str(row.pk) for row in (*known.values(), *new) if row not in done]
    waits_for_all = registry.get_review_policy(lease.graph).resume_on == "all"
    return bool(done) and not (open_ and waits_for_all), open_


def flag_changed_interrupts(lease: RunLease, ids: Sequence[str], using: str) -> None:
    """Store that interrupts have changed since their decision, and add an audit log entry.

    ``ids`` are the interrupts' ids in the engine. Interrupts that are already marked are ignored.
    """
    rows = Interrupt.objects.using(using).filter(thread=lease.thread.pk, changed_at=None)
    found = [*rows.filter(interrupt_id__in=ids).order_by("pk").values_list("pk", flat=True)]
    if not found:
        return
    Interrupt.objects.using(using).filter(pk__in=found).update(changed_at=Now())
    detail = {"interrupts": [str(pk) for pk in found]}
    _append_audit(lock_thread(pk=lease.thread.pk), "interrupt_changed", str(lease.run_id), detail)


def supersede_interrupts(lease: RunLease, using: str, *, stays: Sequence[str] = ()) -> None:
    """Set the run's pending interrupts to superseded, except those with an id in ``stays``."""
    left = Interrupt.objects.using(using).filter(run=lease.run_id, status=PENDING)
    left = left.exclude(interrupt_id__in=stays)
    found = [str(pk) for pk in left.order_by("pk").values_list("pk", flat=True)]
    if not found:
        return  # The interrupt was decided in the meantime.
    left.update(status=Interrupt.Status.SUPERSEDED, **get_closed_columns())
    thread = lock_thread(pk=lease.thread.pk)
    _append_audit(thread, "supersede", str(lease.run_id), {"interrupts": found})


def _refuse_answer(lease: RunLease, row: Interrupt, refusal: str, using: str) -> None:
    """Delete the resume value that the node has rejected, and store the reason in the decision.

    ``refusal`` is the reason. The decision remains in the history.
    """
    decisions = Decision.objects.using(using).filter(interrupt=row, effective=True)
    made = decisions.get(version=row.version - 1)
    row.refused_version = made.version
    thread = lock_thread(pk=lease.thread.pk)
    answer = DjangoSaver(lease.thread).drop_answer(row)
    refusal = read_options(row).mask_quotes(answer, refusal)
    Decision.objects.using(using).filter(pk=made.pk).update(
        refusal=escape_unstorable(refusal)[:REFUSAL_LENGTH]
    )
    # The reason may quote the response, so the audit log contains only the decision's id.
    detail = {"decision": str(made.pk), "version": made.version}
    _append_audit(thread, "reopen", str(row.pk), detail)


def _append_audit(thread: Thread, verb: str, subject: str, detail: dict[str, Any]) -> None:
    batch = WriteBatch(write_alias())
    audit.append(batch, thread, verb, by=None, via=WORKER, subject=subject, detail=detail)
    batch.run()


def _insert(rows: Sequence[Interrupt], batch: WriteBatch) -> None:
    batch.insert(
        queries.INSERT_INTERRUPTS, [queries.INSERT_INTERRUPTS.values_of(row) for row in rows]
    )


def _publish_created(lease: RunLease, rows: Sequence[Interrupt], batch: WriteBatch) -> None:
    event = EventName.INTERRUPT_CREATED
    for row in rows:
        events.publish(
            batch,
            event,
            lease.graph,
            group=row.group_label,
            is_assigned=row.assignee_id is not None or row.group_id is not None,
            **_event_data(lease, row),
        )


def _event_data(lease: RunLease, row: Interrupt) -> dict[str, Any]:
    return {
        "interrupt_id": row.pk,
        "digest": row.payload_digest,
        "run_id": lease.run_id,
        "thread_id": lease.thread.thread_id,
    }


def _signal_created(lease: RunLease, rows: Sequence[Interrupt], using: str) -> None:
    for row in rows:
        signals.send_on_commit(
            signals.interrupt_created,
            using=using,
            interrupt_id=str(row.pk),
            run_id=str(lease.run_id),
            thread_id=lease.thread.thread_id,
            graph=lease.graph,
        )


def _read_known(lease: RunLease, ids: Sequence[str], using: str) -> dict[str, Interrupt]:
    thread = lease.thread.pk
    if not ids or not queries.KNOWN_INTERRUPTS.run(using, thread=thread, interrupts=ids):
        return {}
    rows = Interrupt.objects.using(using).filter(thread=thread, interrupt_id__in=ids)
    return {row.interrupt_id: row for row in rows}


def _raise_again(row: Interrupt, created: Interrupt, pending: PendingInterrupt, using: str) -> None:
    """Set the interrupt ``row`` to pending, with the content of ``created``.

    Nothing changes if ``row`` is pending and has the same content. If ``pending`` was rebuilt from
    stored data, it has no review options. In this case, ``row`` keeps its review options unless the
    payload has changed.
    """
    # The row's digest also covers a proposal, so the payload itself is compared.
    is_same_payload = digest_json(row.payload) == created.payload_digest
    if row.status == PENDING and is_same_payload and row.response_schema == created.response_schema:
        return
    source = row if is_same_payload and pending.review_options is None else created
    terms = {name: getattr(source, name) for name in REVIEW_COLUMNS}
    Interrupt.objects.using(using).filter(pk=row.pk).update(
        run=created.run_id,
        status=PENDING,
        closed_at=None,
        changed_at=None,
        expires_at=None,
        warn_at=None,
        retry_at=None,
        escalated_at=None,
        snoozed_until=None,
        approvals=0,
        proposal=None,
        refused_version=row.refused_version if pending.refusal or is_same_payload else None,
        payload=created.payload,
        payload_digest=created.payload_digest,
        payload_formats=created.payload_formats
        or (row.payload_formats if is_same_payload else None),
        response_schema=created.response_schema,
        search_text=source.search_text,
        search_grams=index_text(source.search_text, using),
        version=F("version") + 1,
        **terms,
        **build_assignment_columns(pending.review_options, using),
    )
    created.pk, created.expiry = row.pk, created.expiry or (row.expiry if is_same_payload else None)
    if created.expiry and row.status == Interrupt.Status.EXPIRED and row.is_answered:
        # The response of the expiry options was rejected, so it must not be used again.
        created.expiry = {**created.expiry, "then": "park", "answer": None}
    _set_expiry([created], using)
    _set_due([created], [pending], using)


def _set_expiry(rows: Sequence[Interrupt], using: str) -> None:
    """Set the expiry time of interrupts with a time limit, on the database's clock."""
    for row in rows:
        if row.expiry:
            seconds = row.expiry["seconds"]
            warned = seconds - min(hitl.EXPIRY_WARNING_SECONDS, seconds / 2)
            stored = Interrupt.objects.using(using).filter(pk=row.pk)
            stored.update(
                expires_at=Now() + timedelta(seconds=seconds),
                warn_at=Now() + timedelta(seconds=warned),
                expiry=row.expiry,
            )


def _set_due(
    rows: Sequence[Interrupt], pending_interrupts: Sequence[PendingInterrupt], using: str
) -> None:
    """Set the due time of interrupts whose review options have one, on the database's clock."""
    for row, pending in zip(rows, pending_interrupts, strict=True):
        due = pending.review_options and pending.review_options.due
        if due:
            at = Now() + due if isinstance(due, timedelta) else to_stored(due)
            Interrupt.objects.using(using).filter(pk=row.pk).update(due_at=at, overdue=False)


def encode_expiry(expires: Expiry | None) -> dict[str, Any] | None:
    """Return the value of the ``expiry`` column: an Expiry as a dict, or None."""
    if expires is None:
        return None
    seconds = expires.after.total_seconds()
    terms = {"seconds": seconds, "then": expires.then, "answer": expires.answer}
    return {**terms, "group": expires.group} if expires.group else terms


def _build_row(lease: RunLease, pending: PendingInterrupt, using: str) -> Interrupt:
    interrupt = pending.interrupt
    columns = build_review_columns(pending, lease.graph)
    # Encrypted values can't be searched.
    hidden = () if find_key_ring() is not None else (columns["why"], interrupt.value)
    text = build_search_text(columns["title"], pending.node, *lease.names, *hidden)
    return queries.INTERRUPT_ROW.new(
        thread_id=lease.thread.pk,
        run_id=lease.run_id,
        interrupt_id=interrupt.id,
        kind=pending.kind,
        graph=lease.graph,
        node=pending.node[:NODE_LENGTH],
        checkpoint_ns=pending.checkpoint_ns,
        checkpoint_id=pending.checkpoint_id,
        task_id=pending.task_id,
        task_path=pending.task_path,
        index=pending.index,
        key=pending.key,
        payload=interrupt.value,
        payload_digest=digest_json(interrupt.value),
        payload_formats=pending.payload_formats or None,
        response_schema=interrupt.response_schema,
        expiry=encode_expiry(pending.expires),
        search_text=text,
        search_grams=index_text(text, using),
        **columns,
        **build_assignment_columns(pending.review_options, using),
    )
