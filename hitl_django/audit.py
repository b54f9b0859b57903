"""The audit trail of a thread, who did what: append-only, each entry hashed over the one before.

The head of the chain stands on the thread's row, so whoever appends holds that row's lock and two
entries can't follow the same one. Someone who can write to the tables can still rewrite the whole
chain; what they can't do is change one entry unnoticed by those who kept a later hash.
A reason that a person gave goes into the hash as its digest, so the words can be erased.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db import router, transaction
from django.db.models import BigIntegerField, PositiveIntegerField, Q, TextField
from django.utils.timezone import is_aware

from hitl_django.db.alias import write_alias
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import Parameter, PreparedUpdate
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.row_mapper import RowMapper
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import AuditEntry, Thread
from hitl_django.models.fields import canonical_json, digest_json

SYSTEM = "system"
LABEL_LENGTH = 255
#: Where the detail of an entry has the name of another user, by its verb.
NAMES = {
    "assign": "to",
    "decide": "held_by",
    "release": "from",
    "take_over": "from",
    "vote": "held_by",
}
#: Threads, and entries, that are looked at together.
BATCH, CHUNK = 500, 2000

#: Moves the head of a thread's chain, from the entry that the new one follows.
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

#: Adds an entry; a thread can't have two of the same number.
_ENTRY, _RECORD = (
    BulkInsert(AuditEntry, insertable_columns(AuditEntry), fresh=True),
    RowMapper(AuditEntry),
)


def append(
    batch: WriteBatch,
    thread: Thread,
    verb: str,
    *,
    by: Any,
    via: str,
    subject: str = "",
    detail: dict[str, Any],
    guest: str = "",
    is_new: bool = False,
    overtaken: type[Exception] | None = None,
) -> None:
    """Adds an audit entry to a batch, for a thread whose row ``lock_thread`` has locked.

    A batch takes one entry of a thread: the next one moves the same head of the chain, and a
    statement changes a row once. ``guest`` is the name of somebody without an account who did it.
    Where the thread ``is_new``, its row is still to be written, and with it the head of the chain.
    Who has read the thread and not locked it names what is raised where it was ``overtaken``.
    """
    entry = _RECORD.new(
        thread_id=thread.pk,
        seq=thread.audit_seq + 1,
        verb=verb,
        subject=subject,
        actor_id=None if by is None else by.pk,
        actor_label=guest or label_user(by),
        via=via,
        # The actor's row may be deleted and its column emptied; the hash must still hold then.
        detail={**detail, "actor_id": None if by is None else str(by.pk)},
        at=thread.now,
        prev_hash=thread.audit_hash,
    )
    entry.hash = hash_entry(entry, thread.thread_id)
    if not is_new:
        # Zero rows: something else was added to the record since the thread was read, which nobody
        # can do to a row that is locked.
        moved = {"last": thread.audit_seq, "seq": entry.seq, "hash": entry.hash}
        batch.guard(_CHAIN, {"thread": thread.pk, **moved}, overtaken)
    batch.insert(_ENTRY, [_ENTRY.values_of(entry)])
    thread.audit_seq, thread.audit_hash = entry.seq, entry.hash


def append_alone(thread: Thread, verb: str, **entry: Any) -> None:
    """Adds an entry as ``append`` does, in a batch of its own that is written at once."""
    batch = WriteBatch(write_alias())
    append(batch, thread, verb, **entry)
    batch.run()


def hash_entry(entry: AuditEntry, thread_id: str) -> str:
    """Returns the hash of an entry: SHA-256 of the hash before it and its text, as UTF-8."""
    return hashlib.sha256(
        (entry.prev_hash + get_hashed_text(entry, thread_id)).encode()
    ).hexdigest()


def get_hashed_text(entry: AuditEntry, thread_id: str) -> str:
    """Returns an entry's columns as the text that is hashed, which needs no database to check."""
    hashed = {
        "thread": thread_id,
        "seq": entry.seq,
        "at": _format_utc(entry.at),
        "verb": entry.verb,
        "subject": entry.subject,
        "actor": entry.actor_label,
        "via": entry.via,
        "detail": _digest_reason(entry.detail),
    }
    return canonical_json(hashed).decode()


def erase_reasons(thread: Thread) -> None:
    """Replaces the reasons in a thread's audit entries by their digests; the hashes still hold."""
    entries = AuditEntry.objects.using(router.db_for_write(AuditEntry))
    for entry in entries.filter(thread=thread).order_by().iterator():
        if (detail := _digest_reason(entry.detail)) != entry.detail:
            entries.filter(pk=entry.pk).update(detail=detail)


def _digest_reason(detail: dict[str, Any]) -> dict[str, Any]:
    reason = detail.get("reason")
    if not isinstance(reason, str) or not reason:
        return detail
    return {**detail, "reason": {"digest": digest_json(reason)}}


def find_first_fault(thread: Thread) -> int | None:
    """Returns the seq of the first entry that was changed, removed or moved; None if all hold."""
    entries = AuditEntry.objects.using(router.db_for_write(AuditEntry)).filter(thread=thread)
    return _check_chain(thread, entries.order_by("seq").iterator())


def find_faults() -> Iterator[tuple[str, int]]:
    """Yields each thread whose audit trail doesn't hold, with the seq of its first bad entry.

    Threads are read in batches and entries one after the other, so the memory it takes doesn't
    depend on how many there are.
    """
    last: Any = 0
    every = Thread.objects.using(router.db_for_write(Thread)).order_by("pk")
    while threads := list(every.filter(pk__gt=last)[:BATCH]):
        last = threads[-1].pk
        for thread in _find_doubtful(threads):
            fault = _check_again(thread, every.db)
            if fault is not None:
                yield thread.thread_id, fault


@retry_on_conflict
def _check_again(thread: Thread, using: str) -> int | None:
    """Checks a thread again with its row locked: it may have grown between the two reads."""
    with transaction.atomic(using=using):
        rows = Thread.objects.using(using).select_for_update()
        locked = rows.filter(pk=thread.pk).first()
        return None if locked is None else find_first_fault(locked)


def _find_doubtful(threads: list[Thread]) -> Iterator[Thread]:
    entries = AuditEntry.objects.using(router.db_for_write(AuditEntry))
    entries = entries.filter(thread__in=[thread.pk for thread in threads])
    ordered = entries.order_by("thread_id", "seq").iterator(CHUNK)
    groups = groupby(ordered, key=attrgetter("thread_id"))
    owner, group = next(groups, (None, iter(())))
    for thread in threads:
        if owner != thread.pk:
            fault = _check_chain(thread, ())
        else:
            fault = _check_chain(thread, group)
            owner, group = next(groups, (None, iter(())))
        if fault is not None:
            yield thread


def _check_chain(thread: Thread, entries: Iterable[AuditEntry]) -> int | None:
    expected, previous = 1, ""
    for entry in entries:
        sound = (
            entry.seq == expected
            and entry.prev_hash == previous
            and _has_its_actor(entry)
            and entry.hash == hash_entry(entry, thread.thread_id)
        )
        if not sound:
            return expected
        expected, previous = expected + 1, entry.hash
    if (expected - 1, previous) != (thread.audit_seq, thread.audit_hash):
        return expected
    return None


def _has_its_actor(entry: AuditEntry) -> bool:
    """Returns whether the entry's account is the one that was hashed, unless that is gone."""
    detail = entry.detail
    if not isinstance(detail, dict):
        return False
    return entry.actor_id is None or str(entry.actor_id) == detail.get("actor_id")


def _format_utc(at: datetime) -> str:
    # The same instant reads differently under another TIME_ZONE; its hash must not.
    return (at.astimezone(UTC) if is_aware(at) else at).isoformat()


def list_names(entry: AuditEntry) -> list[str]:
    """Lists the names of users in the detail of an entry."""
    name = entry.detail.get(NAMES.get(entry.verb))
    return [name] if name else []


def label_user(user: Any) -> str:
    """Returns a user's name as the record keeps it when the account is gone; code is SYSTEM."""
    if user is None:
        return SYSTEM
    name = str(user.get_username())[:LABEL_LENGTH]
    return f"@{name}" if name == SYSTEM else name
