"""Entries of the audit log: creation, hashes, and displayed values."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from django.db import router
from django.db.models import BigIntegerField, PositiveIntegerField, Q, TextField
from django.utils.timezone import is_aware

from hitl_django.db.alias import write_alias
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import Parameter, PreparedUpdate
from hitl_django.db.row_mapper import RowMapper
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import AuditEntry, Thread
from hitl_django.models.fields import canonical_json, digest_json

from .names import (
    ACTOR,
    ACTOR_ID,
    REDACTED,
    SALTS,
    get_name,
    label_user,
    make_salts,
    read_commitments,
    read_redacted_values,
)

#: Moves the end of a thread's chain from the previous entry to the new entry.
_CHAIN = PreparedUpdate(
    Thread,
    Q(
        pk=Parameter("thread", BigIntegerField()),
        audit_seq=Parameter("last", PositiveIntegerField()),
    ),
    lambda: {
        "audit_seq": Parameter("seq", PositiveIntegerField()),
        "audit_hash": Parameter("hash", TextField()),
    },
)

#: Inserts an entry. A thread can't have two entries with the same number.
_ENTRY, _RECORD = (
    BulkInsert(AuditEntry, insertable_columns(AuditEntry), fresh=True),
    RowMapper(AuditEntry),
)


def append(
    batch: WriteBatch,
    thread: Thread,
    verb: str,
    *,
    is_new: bool = False,
    conflict_error: type[Exception] | None = None,
    **columns: Any,
) -> None:
    """Add an audit log entry to a batch.

    The caller must have locked the thread with ``lock_thread``, or pass ``conflict_error``. The
    batch raises ``conflict_error`` if another entry was added after the thread was read. A batch
    can have only one entry per thread, because each entry updates the thread's row. ``columns`` are
    the other arguments of ``make_entry``. If ``is_new`` is true, the batch inserts the thread's
    row, including the hash of this entry.
    """
    last = thread.audit_seq
    entry = make_entry(thread, verb, **columns)
    if not is_new:
        # Zero rows: an entry was added since the thread was read. This is impossible if the thread
        # is locked.
        moved = {"last": last, "seq": entry.seq, "hash": entry.hash}
        batch.guard(_CHAIN, {"thread": thread.pk, **moved}, conflict_error)
    batch.insert(_ENTRY, [_ENTRY.values_of(entry)])


def make_entry(
    thread: Thread,
    verb: str,
    *,
    by: Any,
    via: str,
    subject: str = "",
    detail: dict[str, Any],
    guest: str = "",
) -> AuditEntry:
    """Build the next entry of a thread's audit log without storing the entry.

    The number and the hash of the entry are set on ``thread``, for the entry that follows.
    ``subject`` is the id of the row concerned, and ``guest`` the name of a person without an
    account.
    """
    # The hash must remain valid if the user is deleted, because the foreign key then becomes NULL.
    detail = {**detail, ACTOR_ID: None if by is None else str(by.pk)}
    actor = guest or label_user(by)
    if salts := make_salts(verb, actor, detail):
        detail[SALTS] = salts
    entry = _RECORD.new(
        thread_id=thread.pk,
        seq=thread.audit_seq + 1,
        verb=verb,
        subject=subject,
        actor_id=None if by is None else by.pk,
        actor_label=actor,
        via=via,
        detail=detail,
        at=thread.now,
        prev_hash=thread.audit_hash,
    )
    entry.hash = hash_entry(entry, thread.thread_id)
    thread.audit_seq, thread.audit_hash = entry.seq, entry.hash
    return entry


def append_alone(thread: Thread, verb: str, **entry: Any) -> None:
    """Store an audit log entry immediately, in a batch that contains only this entry.

    The arguments are those of ``append``.
    """
    batch = WriteBatch(write_alias())
    append(batch, thread, verb, **entry)
    batch.run()


def hash_entry(entry: AuditEntry, thread_id: str) -> str:
    """Return the hash of an audit log entry.

    The hash is the SHA-256 of a text. This text is the previous entry's hash, followed by the
    result of ``get_hashed_text``.
    """
    return hashlib.sha256(
        (entry.prev_hash + get_hashed_text(entry, thread_id)).encode()
    ).hexdigest()


def get_hashed_text(entry: AuditEntry, thread_id: str) -> str:
    """Return the text from which the hash of an entry is computed.

    With this text, the hash can be verified offline.
    """
    actor, detail = _commit_names(entry)
    hashed = {
        "thread": thread_id,
        "seq": entry.seq,
        "at": _format_utc(entry.at),
        "verb": entry.verb,
        "subject": entry.subject,
        "actor": actor,
        "via": entry.via,
        "detail": _digest_reason(detail),
    }
    return canonical_json(hashed).decode()


def _commit_names(entry: AuditEntry) -> tuple[Any, dict[str, Any]]:
    """Return the actor and the details of an entry, with commitments instead of names."""
    actor, detail = entry.actor_label, get_shown_detail(entry)
    if detail is entry.detail:
        return actor, detail
    committed = {at: {"name": text} for at, text in read_commitments(entry).items()}
    return committed.pop(ACTOR, actor), {**detail, **committed}


def get_shown_detail(entry: AuditEntry) -> dict[str, Any]:
    """Return the details of an entry for display, without salts and commitments."""
    detail: dict[str, Any] = entry.detail
    if SALTS not in detail and REDACTED not in detail:
        return detail
    return {key: value for key, value in detail.items() if key not in (SALTS, REDACTED)}


def get_shown_names(entry: AuditEntry) -> dict[str, dict[str, str]]:
    """Return the names in an entry, each with its salt, by place (``list_places``).

    The entry's hash covers a hash of each salt and name. A pseudonym has no salt, so the original
    name can't be found by guessing.
    """
    redacted = read_redacted_values(entry)
    return {
        place: {"name": get_name(entry, place)}
        | ({} if place in redacted else {"salt": entry.detail[SALTS][place]})
        for place in read_commitments(entry)
    }


def erase_reasons(thread: Thread) -> None:
    """Replace the reasons in a thread's audit log by their digests.

    The hashes remain valid.
    """
    entries = AuditEntry.objects.using(router.db_for_write(AuditEntry))
    for entry in entries.filter(thread=thread).order_by().iterator():
        if (detail := _digest_reason(entry.detail)) != entry.detail:
            entries.filter(pk=entry.pk).update(detail=detail)


def _digest_reason(detail: dict[str, Any]) -> dict[str, Any]:
    reason = detail.get("reason")
    if not isinstance(reason, str) or not reason:
        return detail
    return {**detail, "reason": {"digest": digest_json(reason)}}


def _format_utc(at: datetime) -> str:
    # Format the time in UTC, because its text would otherwise depend on TIME_ZONE.
    return (at.astimezone(UTC) if is_aware(at) else at).isoformat()
