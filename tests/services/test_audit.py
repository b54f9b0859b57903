"""The audit log of each thread: verification and erasure, without effects on other threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import audit, services
from hitl_django.audit import verification
from hitl_django.models import AuditEntry, Thread
from hitl_django.models.fields import digest_json

from .conftest import asked

pytestmark = pytest.mark.promise("P20")

Advance = Callable[[], int]


def decided(advance: Advance, count: int = 3) -> list[Thread]:
    """Create threads with two reasons in the audit log, of which one is the same in all threads."""
    interrupts = [asked("approval", {"text": "x"}, advance) for _ in range(count)]
    # Alternate between the threads, so that the entries of one thread aren't adjacent.
    for number, interrupt in enumerate(interrupts):
        services.decide(interrupt.pk, "approve", reason=f"reason {number}")
    advance()
    return [Thread.objects.get(pk=interrupt.thread_id) for interrupt in interrupts]


def record_of(thread: Thread) -> list[dict[str, Any]]:
    return list(AuditEntry.objects.filter(thread=thread).order_by("seq").values())


def test_erase_reasons_changes_only_audit_entries_of_its_thread(advance: Advance) -> None:
    first, thread, last = decided(advance)
    others, before = [record_of(first), record_of(last)], record_of(thread)
    for number, entry in enumerate(AuditEntry.objects.filter(thread=thread, verb="decide")):
        assert entry.detail["reason"] == f"reason {number + 1}"

    audit.erase_reasons(thread)

    assert [record_of(first), record_of(last)] == others
    for entry, kept in zip(record_of(thread), before, strict=True):
        if reason := kept["detail"].get("reason"):
            kept["detail"]["reason"] = {"digest": digest_json(reason)}
        assert entry == kept
    assert audit.find_first_fault(thread) is None


def test_erase_reasons_replaces_reason_in_audit_entry_by_its_digest(advance: Advance) -> None:
    interrupt = asked("approval", {"text": "x"}, advance)
    services.cancel(interrupt.run_id, reason="first")
    again = services.start("approval", {"text": "y"}, thread_id=interrupt.thread.thread_id)
    advance()
    services.cancel(again.id, reason="second")
    thread = Thread.objects.get()

    audit.erase_reasons(thread)

    reasons = [entry["detail"].get("reason") for entry in record_of(thread)]
    digests = [{"digest": digest_json(reason)} for reason in ("first", "second")]
    assert [reason for reason in reasons if reason] == digests
    assert audit.find_first_fault(thread) is None


@pytest.mark.parametrize("batch", [1, 2, 3, 500])
def test_find_faults_returns_only_threads_with_tampered_audit_log(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(verification, "BATCH", batch)
    threads = decided(advance, 5)
    assert list(audit.find_faults()) == []
    for thread, seq in ((threads[1], 2), (threads[4], 1)):
        AuditEntry.objects.filter(thread=thread, seq=seq).update(via="nowhere")
    AuditEntry.objects.filter(thread=threads[2]).delete()
    assert list(audit.find_faults()) == [
        (threads[1].thread_id, 2), (threads[2].thread_id, 1), (threads[4].thread_id, 1),
    ]  # fmt: skip
    assert [audit.find_first_fault(thread) for thread in threads] == [None, 2, 1, None, 1]


@pytest.mark.django_db(transaction=True)
def test_find_faults_rechecks_a_tampered_audit_log_with_thread_locked(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    (thread,) = decided(advance, 1)
    AuditEntry.objects.filter(seq=2).update(via="nowhere")
    within: list[bool] = []
    look = verification.check_thread

    def watched(thread: Thread) -> verification.CheckedThread:
        within.append(connection.in_atomic_block)
        return look(thread)

    monkeypatch.setattr(verification, "check_thread", watched)
    with CaptureQueriesContext(connection) as sent:
        assert list(audit.find_faults()) == [(thread.thread_id, 2)]
    assert within == [True]
    # SQLite has a single writer and no row locks.
    locks = [query["sql"] for query in sent if "FOR UPDATE" in query["sql"]]
    assert len(locks) == connection.features.has_select_for_update
