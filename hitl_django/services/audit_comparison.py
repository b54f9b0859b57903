"""Comparison of the rows of interrupts and decisions with the audit log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.db import transaction

from hitl_django import answers
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import PayloadError
from hitl_django.models import AuditEntry, Decision, Interrupt, Thread
from hitl_django.models.fields import digest_json

#: Verbs of the audit log entries that are stored with a decision, and verb of the entry about
#: erased values.
DECIDED, ERASED = ("decide", "approve", "expire"), "erase"
#: Verb of the entry about an undo, which moves earlier approvals to the reopened version.
UNDONE = "undo"
#: Number of threads that one query reads.
BATCH = 500


def find_forged_rows() -> Iterator[tuple[str, str]]:
    """Yield each interrupt or decision whose row differs from the audit log.

    Each result is a thread id and a message. Threads that can't be decrypted are skipped, because
    the verification of the audit log reports them.
    """
    threads = Thread.objects.using(write_alias()).filter(has_interrupts=True).order_by("pk")
    last = 0
    while batch := list(threads.filter(pk__gt=last)[:BATCH]):
        last = batch[-1].pk
        for thread in batch:
            try:
                found = _compare(thread) and _compare_locked(thread)
            except PayloadError:
                continue
            yield from ((thread.thread_id, words) for words in found)


@retry_on_conflict
def _compare_locked(thread: Thread) -> Sequence[str]:
    with transaction.atomic(using=write_alias()):
        rows = Thread.objects.using(write_alias()).select_for_update()
        locked = rows.filter(pk=thread.pk).first()
        return [] if locked is None else _compare(locked)


def _compare(thread: Thread) -> Sequence[str]:
    using = write_alias()
    entries = AuditEntry.objects.using(using).filter(
        thread=thread, verb__in=(*DECIDED, ERASED, UNDONE)
    )
    recorded = list(entries.order_by("seq"))
    is_erased = any(entry.verb == ERASED for entry in recorded)
    made = [
        entry
        for entry in recorded
        if entry.verb in ("decide", "approve")
        or (entry.verb == "expire" and "answer" in entry.detail)
    ]
    decisions = Decision.objects.using(using).filter(interrupt__thread=thread).order_by("pk")
    undone = {entry.subject for entry in recorded if entry.verb == UNDONE}
    found = _compare_decisions(made, list(decisions), undone, is_erased)
    interrupts = Interrupt.objects.using(using).filter(thread=thread).order_by("pk")
    for interrupt in interrupts.iterator(chunk_size=20):  # payloads may be large
        if not (is_erased and interrupt.payload is None):
            found += _compare_payload(interrupt, made)
    return found


def _compare_decisions(
    made: Sequence[AuditEntry],
    decisions: Sequence[Decision],
    undone: Collection[str],
    is_erased: bool,
) -> list[str]:
    left, found = list(decisions), []
    unmatched = []
    for entry in made:
        same = next((row for row in left if _is_recorded(row, entry, undone, is_erased)), None)
        if same is None:
            unmatched.append(entry)
        else:
            left.remove(same)
    for entry in unmatched:
        place = (entry.subject, entry.detail.get("version"))
        changed = next((row for row in left if (str(row.interrupt_id), row.version) == place), None)
        if changed is None:
            found.append(
                f"the decision of entry {entry.seq} on interrupt {entry.subject} is missing"
            )
        else:
            left.remove(changed)
            found.append(f"decision {changed.pk} doesn't match entry {entry.seq}")
    return found + [f"decision {row.pk} isn't in the audit log" for row in left]


def _is_recorded(
    row: Decision, entry: AuditEntry, undone: Collection[str], is_erased: bool
) -> bool:
    detail = entry.detail
    as_made = (str(row.interrupt_id), row.payload_digest)
    if as_made != (entry.subject, detail.get("payload_digest")):
        return False
    if row.version != detail.get("version") and entry.subject not in undone:
        return False
    if entry.verb == "expire":
        if row.type != "expire":
            return False
    elif row.type != detail.get("type"):
        return False
    if is_erased and row.value is None:
        return True
    return digest_json(row.value) == detail.get("answer")


def _compare_payload(interrupt: Interrupt, made: Sequence[AuditEntry]) -> list[str]:
    named: Any = interrupt.payload
    proposal = answers.read_options(interrupt).mask_proposal()
    if proposal is not None:
        named = [interrupt.payload, proposal["answer"]]
    is_closed = interrupt.status == Interrupt.Status.DECIDED
    closing = [
        entry
        for entry in made
        if entry.subject == str(interrupt.pk)
        and entry.detail.get("version") == interrupt.version - 1
    ]
    is_recorded = not (is_closed and closing) or any(
        entry.detail.get("payload_digest") == interrupt.payload_digest for entry in closing
    )
    if digest_json(named) == interrupt.payload_digest and is_recorded:
        return []
    return [f"the payload of interrupt {interrupt.pk} doesn't match its digest in the audit log"]
