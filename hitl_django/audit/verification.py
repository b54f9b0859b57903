"""Verification that the audit log of a thread is complete and unchanged.

The hash proves that an entry is unchanged. The hash covers a salted commitment to each name. A name
that was replaced by a pseudonym has no salt, and is valid only if a later entry lists the
replacement. Otherwise, anyone with write access could replace names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from django.db import router, transaction

from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import PayloadError
from hitl_django.models import AuditEntry, Thread

from .entries import get_hashed_text
from .names import (
    ACTOR,
    ACTOR_ID,
    FORGET_PERSON,
    commit,
    is_pseudonym,
    is_salt,
    list_places,
    read_redacted_values,
)

#: Maximum numbers of threads, and of entries, that one query reads.
BATCH, CHUNK = 500, 2000
#: Values of an exported entry that repeat parts of the hashed text.
SHOWN = ("seq", "verb", "subject", "actor", "via")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedThread:
    """The result of verifying a thread's audit log.

    ``fault`` is the number of the first entry that was changed, removed or moved, or None.
    ``unreadable`` is the reason why an entry can't be decrypted. Later entries are then not
    checked.
    """

    thread_id: str
    fault: int | None
    unreadable: str = ""


class ChainCheck:
    """A verification of a chain of entries. The caller adds the entries from the first to the last.

    The verification continues after an invalid entry, because a later entry may list pseudonyms of
    earlier entries.
    """

    def __init__(self) -> None:
        self.last, self.hash = 0, ""
        self._fault: tuple[int, Any] | None = None
        #: Pseudonyms that no later entry has listed yet, by entry number and place.
        self._unnamed: dict[tuple[int, str], str] = {}
        self._origins: dict[int, Any] = {}

    def add(
        self,
        *,
        seq: int,
        prev_hash: str,
        hash: str,  # noqa: A002
        text: str,
        verb: str,
        detail: Mapping[str, Any],
        redacted: Mapping[str, Any],
        origin: Any = None,
        is_sound: bool = True,
    ) -> None:
        """Check the next entry of the chain.

        ``text`` is the text from which the hash was computed. ``redacted`` contains the current
        values of the entry in all places where a pseudonym replaced a name, by place. If
        ``is_sound`` is false, the caller has already found a fault. If the entry is invalid,
        ``find_fault`` returns its ``origin``.
        """
        is_sound = is_sound and (seq, prev_hash) == (self.last + 1, self.hash)
        if hash == hashlib.sha256((prev_hash + text).encode()).hexdigest():
            if verb == FORGET_PERSON:
                self._resolve_pseudonyms(detail)
            self._unnamed.update({(seq, place): name for place, name in redacted.items()})
        else:
            is_sound = False
        if not is_sound and self._fault is None:
            self._fault = self.last + 1, origin
        if redacted:
            self._origins[seq] = origin
        self.last, self.hash = seq, hash

    def add_row(self, entry: AuditEntry, thread_id: str) -> None:
        """Check the next entry, given as a row of the database."""
        has_its_actor = _has_hashed_actor(entry)
        if not isinstance(entry.detail, dict):
            entry.detail = {}
        self.add(
            seq=entry.seq,
            prev_hash=entry.prev_hash,
            hash=entry.hash,
            text=get_hashed_text(entry, thread_id),
            verb=entry.verb,
            detail=entry.detail,
            redacted=read_redacted_values(entry),
            is_sound=has_its_actor,
        )

    def add_exported(self, entry: Mapping[str, Any], origin: Any) -> None:
        """Check the next entry, given in the format of an export.

        If the entry is invalid, ``find_fault`` returns its ``origin``. A malformed entry raises
        KeyError, TypeError or ValueError.
        """
        hashed, shown_names = json.loads(entry["hashed"]), entry.get("names", {})
        values = {**hashed["detail"], ACTOR: hashed[ACTOR]}
        values = {place: values.get(place) for place in list_places(hashed["verb"])}
        committed = {
            place: is_in["name"] for place, is_in in values.items() if _is_commitment(is_in)
        }
        redacted = {
            place: each["name"] for place, each in shown_names.items() if "salt" not in each
        }
        shown = {**hashed, ACTOR: shown_names.get(ACTOR, {}).get("name", hashed[ACTOR])}
        has_valid_names = shown_names.keys() == committed.keys() and all(
            is_salt(each["salt"]) and commit(each["salt"], each["name"]) == committed[place]
            for place, each in shown_names.items()
            if place not in redacted
        )
        self.add(
            seq=int(entry["seq"]),
            prev_hash=entry["prev_hash"],
            hash=entry["hash"],
            text=entry["hashed"],
            verb=hashed["verb"],
            detail=hashed["detail"],
            redacted=redacted,
            origin=origin,
            is_sound=has_valid_names
            and entry["thread_id"] == hashed["thread"]
            and all(entry[name] == shown[name] for name in SHOWN),
        )

    def find_fault(self) -> tuple[int, Any] | None:
        """Return the number and the origin of the first invalid entry, or None if all are valid."""
        unresolved = {seq for seq, _ in self._unnamed}
        found = [(seq, self._origins[seq]) for seq in unresolved]
        found += [self._fault] if self._fault is not None else []
        return min(found, key=itemgetter(0), default=None)

    def _resolve_pseudonyms(self, detail: Mapping[str, Any]) -> None:
        pseudonym = detail.get("pseudonym")
        if not is_pseudonym(pseudonym):
            return
        for seq, place in _list_redacted(detail.get("entries")):
            if self._unnamed.get((seq, place)) == pseudonym:
                del self._unnamed[seq, place]


def _list_redacted(entries: Any) -> Iterator[tuple[int, Any]]:
    for pair in entries if isinstance(entries, list) else ():
        match pair:
            case [int(seq), list(places)]:
                for place in places:
                    yield seq, place


def find_first_fault(thread: Thread) -> int | None:
    """Return the number of the first changed, removed or moved entry of a thread.

    Returns None if all entries are valid.
    """
    return check_thread(thread).fault


def find_faults() -> Iterator[tuple[str, int]]:
    """Yield the ids of threads with an invalid audit log, each with the number of an entry.

    The number is that of the thread's first invalid entry.
    """
    for checked in check_threads():
        if checked.fault is not None:
            yield checked.thread_id, checked.fault


def check_threads() -> Iterator[CheckedThread]:
    """Yield the result of the verification for each thread.

    Threads are read in batches and entries one at a time, so the memory used doesn't depend on
    the number of threads or entries.
    """
    last: Any = 0
    every = Thread.objects.using(router.db_for_write(Thread)).order_by("pk")
    while threads := list(every.filter(pk__gt=last)[:BATCH]):
        last = threads[-1].pk
        try:
            found = list(_check_batch(threads))
        except PayloadError:  # An entry can't be decrypted.
            found = [(thread, _check_readable(thread)) for thread in threads]
        for thread, checked in found:
            again = checked if checked.fault is None else _check_again(thread, every.db)
            if again is not None:
                yield again


def _check_readable(thread: Thread) -> CheckedThread:
    try:
        return check_thread(thread)
    except PayloadError as error:
        return CheckedThread(thread_id=thread.thread_id, fault=None, unreadable=str(error))


@retry_on_conflict
def _check_again(thread: Thread, using: str) -> CheckedThread | None:
    """Check a thread again with its row locked. Return None if the thread was deleted.

    A first check without a lock may fail because entries were added between its two queries.
    """
    with transaction.atomic(using=using):
        rows = Thread.objects.using(using).select_for_update()
        locked = rows.filter(pk=thread.pk).first()
        return None if locked is None else check_thread(locked)


def check_thread(thread: Thread) -> CheckedThread:
    """Verify the audit log of one thread."""
    entries = AuditEntry.objects.using(router.db_for_write(AuditEntry)).filter(thread=thread)
    return _check_chain(thread, entries.order_by("seq").iterator())


def _check_batch(threads: list[Thread]) -> Iterator[tuple[Thread, CheckedThread]]:
    entries = AuditEntry.objects.using(router.db_for_write(AuditEntry))
    entries = entries.filter(thread__in=[thread.pk for thread in threads])
    ordered = entries.order_by("thread_id", "seq").iterator(CHUNK)
    groups = groupby(ordered, key=attrgetter("thread_id"))
    owner, group = next(groups, (None, iter(())))
    for thread in threads:
        if owner != thread.pk:
            yield thread, _check_chain(thread, ())
        else:
            yield thread, _check_chain(thread, group)
            owner, group = next(groups, (None, iter(())))


def _check_chain(thread: Thread, entries: Iterable[AuditEntry]) -> CheckedThread:
    chain = ChainCheck()
    for entry in entries:
        chain.add_row(entry, thread.thread_id)
    fault, _ = chain.find_fault() or (None, None)
    if fault is None and (chain.last, chain.hash) != (thread.audit_seq, thread.audit_hash):
        fault = chain.last + 1
    return CheckedThread(thread_id=thread.thread_id, fault=fault)


def _is_commitment(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"name"}


def _has_hashed_actor(entry: AuditEntry) -> bool:
    """Return whether the entry's user matches the user id in the hashed details.

    An entry whose user was deleted also matches.
    """
    detail = entry.detail
    if not isinstance(detail, dict):
        return False
    return entry.actor_id is None or str(entry.actor_id) == detail.get(ACTOR_ID)
