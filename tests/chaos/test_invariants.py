"""The invariants of valid threads, and detection of each violation."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import F
from django.db.models.functions import Now
from django_q.models import OrmQ
from django_q.tasks import async_task

from hitl_django import audit, services
from hitl_django.checkpoints import inline_values
from hitl_django.checkpoints.codec import pack
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    Thread,
)
from hitl_django.task_queue import dispatcher
from hitl_django.worker import runner

from . import audit_chain, invariants, recovery
from .graphs import EMPTY, SHAPES, Effects, end_of
from .invariants import Record

pytestmark = pytest.mark.django_db


@pytest.fixture
def finished(effects: Effects) -> Run:
    info = services.start("chaos fan", EMPTY)
    recovery.settle()
    return Run.objects.get(pk=info.id)


@pytest.fixture
def waiting(effects: Effects) -> Run:
    info = services.start("chaos fan", EMPTY)
    runner.advance(str(info.id))
    services.decide(Interrupt.objects.order_by("task_path")[0].pk, "respond", "re left?")
    runner.advance(str(info.id))
    return Run.objects.get(pk=info.id)


@pytest.mark.parametrize("shape", SHAPES)
def test_invariant_checks_report_no_fault_at_any_step_of_a_successful_run(
    shape: str, effects: Effects
) -> None:
    info = services.start(shape, EMPTY)
    assert invariants.faults(effects=effects) == []
    while recovery.deliver() or recovery.answer():
        assert invariants.faults(effects=effects) == []
    assert invariants.unfinished() == []
    assert invariants.astray() == []

    (record,) = invariants.records()
    assert Run.objects.get(pk=info.id).state == "succeeded"
    state = invariants.values_of(record, invariants.head_of(record))
    assert (state["total"], state["answers"]) == end_of(shape)
    assert len(effects.done()) == state["total"]


def blob_of(channel: str) -> Any:
    newest = ChannelBlob.objects.filter(channel=channel).order_by("-version")
    return ChannelBlob.objects.filter(pk=newest[0].pk)


def store(channel: str, value: Any) -> None:
    data, digest = pack(value)
    assert blob_of(channel).update(data=data, digest=digest)


def count_more() -> None:
    last = Checkpoint.objects.order_by("-checkpoint_id")[0]
    few, is_whole = inline_values.unpack(bytes(last.scalars))
    held = inline_values.pack({**few, "total": 6}, is_whole=is_whole)
    Checkpoint.objects.filter(pk=last.pk).update(scalars=held)


def fork() -> None:
    last = Checkpoint.objects.order_by("-checkpoint_id")[0]
    last.pk, last.checkpoint_id = None, f"{last.checkpoint_id[:-4]}ffff"
    last.save()


def behead() -> None:
    Checkpoint.objects.filter(step=1).delete()


def write_again() -> None:
    Checkpoint.objects.filter(step=0).delete()
    Checkpoint.objects.filter(step=1).update(parent_id=None)


def fall_behind() -> None:
    Checkpoint.objects.filter(step=-1).update(epoch=2)


def change_an_entry(**columns: Any) -> Callable[[], Any]:
    return lambda: AuditEntry.objects.filter(seq=2).update(**columns)


def put_words_into_an_entry() -> None:
    entry = AuditEntry.objects.get(seq=2)
    entry.detail |= {"type": "reject"}
    entry.save()


def lead_to_another_account() -> None:
    somebody = get_user_model().objects.create(username="somebody")
    AuditEntry.objects.filter(seq=2).update(actor=somebody)


def put_another_entry_on_top() -> None:
    last = AuditEntry.objects.order_by("seq").last()
    assert last is not None
    last.pk, last.seq, last.prev_hash = None, last.seq + 1, last.hash
    last.hash = audit.hash_entry(last, last.thread.thread_id)
    last.save()


def exchange_two_entries() -> None:
    second, third = AuditEntry.objects.order_by("seq")[1:3]
    AuditEntry.objects.filter(pk=second.pk).update(seq=9)
    AuditEntry.objects.filter(pk=third.pk).update(seq=2)
    AuditEntry.objects.filter(pk=second.pk).update(seq=3)


def rewrite_an_entry() -> None:
    entry = AuditEntry.objects.get(seq=2)
    entry.verb = "cancel"
    entry.hash = audit.hash_entry(entry, entry.thread.thread_id)
    entry.save()


#: Changes to the record of a finished run, and the resulting faults.
TAMPERINGS_WITH_THE_RECORD: dict[str, tuple[Callable[[], Any], str]] = {
    "verb": (change_an_entry(verb="cancel"), "audit entry 2 says what it didn't"),
    "subject": (change_an_entry(subject="another"), "audit entry 2 says what it didn't"),
    "actor": (change_an_entry(actor_label="ada"), "audit entry 2 says what it didn't"),
    "via": (change_an_entry(via="admin"), "audit entry 2 says what it didn't"),
    "moment": (change_an_entry(at=datetime(2020, 1, 1, tzinfo=UTC)), "entry 2 says what it didn't"),
    "detail": (put_words_into_an_entry, "audit entry 2 says what it didn't"),
    "hash": (change_an_entry(hash="0" * 64), "audit entry 2 says what it didn't"),
    "hash before": (change_an_entry(prev_hash="0" * 64), "audit entry 2 doesn't follow"),
    "account": (lead_to_another_account, "audit entry 2 leads to another account"),
    "entry rewritten": (rewrite_an_entry, "audit entry 3 doesn't follow"),
    "entry removed": (AuditEntry.objects.filter(seq=2).delete, "audit entry 2 isn't there, but 3"),
    "first removed": (AuditEntry.objects.filter(seq=1).delete, "audit entry 1 isn't there, but 2"),
    "last removed": (AuditEntry.objects.filter(seq=3).delete, "ends with 3, its entries with 2"),
    "all removed": (AuditEntry.objects.all().delete, "ends with 3, its entries with 0"),
    "entry added": (put_another_entry_on_top, "ends with 3, its entries with 4"),
    "order": (exchange_two_entries, "audit entry 2 doesn't follow"),
    "thread's name": (lambda: Thread.objects.update(thread_id="b"), "entry 1 says what it didn't"),
    "thread's number": (lambda: Thread.objects.update(audit_seq=4), "ends with 4"),
    "thread's hash": (lambda: Thread.objects.update(audit_hash="0" * 64), "record ends with"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERINGS_WITH_THE_RECORD)
@pytest.mark.promise("P20")
def test_tampered_audit_log_is_reported_by_test_verifier_and_by_package(
    finished: Run, name: str
) -> None:
    tamper, said = TAMPERINGS_WITH_THE_RECORD[name]
    assert (list(audit_chain.faults(finished.thread_id)), list(audit.find_faults())) == ([], [])
    tamper()
    assert said in "\n".join(audit_chain.faults(finished.thread_id))
    assert len(list(audit.find_faults())) == 1


def test_audit_log_verifies_after_user_is_deleted_and_reasons_are_erased(
    waiting: Run,
) -> None:
    somebody = get_user_model().objects.create_superuser("somebody")
    interrupt = Interrupt.objects.get(status="pending")
    services.decide(interrupt.pk, "respond", "yes", by=somebody, reason="Because – “so”.")
    somebody.delete()
    assert list(audit_chain.faults(waiting.thread_id)) == []

    audit.erase_reasons(Thread.objects.get())

    assert (
        "so" not in AuditEntry.objects.get(verb="decide", actor_label="somebody").detail["reason"]
    )
    assert list(audit_chain.faults(waiting.thread_id)) == []


def flip_a_bit(rows: Any) -> None:
    row = rows.order_by("pk")[0]
    type(row).objects.filter(pk=row.pk).update(digest="0" * 32)


def wait_for_nobody() -> None:
    Run.objects.update(state="interrupted", finished_at=None)


#: Changes to a finished run, and the invariant that each change violates.
TAMPERINGS: list[tuple[Callable[[], Any], str]] = [
    (fork, "chains: 2 checkpoints"),
    (behead, "which isn't there"),
    (write_again, "writes: .* on no checkpoint"),
    (lambda: Decision.objects.all()[0].delete(), "decided True, 0 decisions"),
    (lambda: Interrupt.objects.update(status="pending"), "decided False, 1 decisions"),
    (lambda: PendingWrite.objects.filter(slot=-4).delete(), "its answer isn't stored"),
    (lambda: Decision.objects.update(value="no"), "another answer is stored"),
    (lambda: Decision.objects.all().delete(), "that nobody gave"),
    (lambda: Thread.objects.update(lease_owner="ghost"), "rest: a lease"),
    (lambda: Interrupt.objects.update(status="pending"), "is succeeded and still asks"),
    (wait_for_nobody, "waits for nobody"),
    (lambda: Run.objects.update(finished_at=None), "finished at None"),
    (lambda: Run.objects.update(state="running", finished_at=None), "without a lease"),
    (lambda: Thread.objects.update(epoch=0), "ahead of its thread"),
    (fall_behind, "earlier epoch than what it follows"),
    (lambda: PendingWrite.objects.update(epoch=0), "earlier epoch than its checkpoint"),
    (count_more, "conservation: step .*: 5 tasks add up to 6"),
    (lambda: store("tasks", ["x"] * 5), "counts twice"),
    (change_an_entry(verb="cancel"), "history: audit entry 2"),
    (lambda: Thread.objects.update(attempts=6), "attempts: 6"),
    (lambda: store("tasks", ["a", "b", "c", "d", "e"]), "marks: task a .* never ran"),
    (lambda: flip_a_bit(ChannelBlob.objects), "digests: channelblob"),
    (lambda: flip_a_bit(PendingWrite.objects), "digests: pendingwrite"),
    (lambda: flip_a_bit(Checkpoint.objects), "digests: checkpoint"),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "said"), TAMPERINGS, ids=[said for _, said in TAMPERINGS])
def test_invariant_checks_report_a_fault_for_each_tampered_row(
    finished: Run, effects: Effects, tamper: Callable[[], Any], said: str
) -> None:
    assert invariants.faults(effects=effects) == []
    tamper()
    found = "\n".join(invariants.faults(effects=effects))
    assert re.search(said, found), found


def test_invariant_checks_report_no_fault_for_partially_answered_run(
    waiting: Run, effects: Effects
) -> None:
    assert (waiting.state, invariants.faults(effects=effects)) == ("interrupted", [])


def test_invariant_checks_report_a_write_stored_twice(finished: Run) -> None:
    # The database prevents this change, so the test changes the loaded record.
    (record,) = invariants.records()
    record.writes.append(copy(record.writes[0]))
    assert [fault for fault in invariants.faults_of(record) if "written 2 times" in fault]


def test_invariant_checks_report_a_second_active_run_of_a_thread(finished: Run) -> None:
    (record,) = invariants.records()
    record.runs += [Run(thread=record.thread, state="queued") for _ in range(2)]
    assert "rest: 2 live runs" in [*invariants.faults_of(record)]


def test_invariant_checks_report_a_response_stored_at_the_wrong_position(waiting: Run) -> None:
    Interrupt.objects.filter(status="decided").update(index=F("index") + 1)
    assert [fault for fault in invariants.faults() if "its answer isn't stored" in fault]


@pytest.mark.parametrize("state", ["queued", "running"])
def test_invariant_checks_report_an_unfinished_run_only_after_the_given_time(state: str) -> None:
    services.start("chaos line", EMPTY)
    Run.objects.update(state=state, last_message_at=Now() - timedelta(seconds=10))
    Thread.objects.update(lease_until=Now() - timedelta(seconds=10))
    assert len(invariants.unfinished(timedelta(seconds=9))) == 1
    assert invariants.unfinished(timedelta(seconds=11)) == []


def test_invariant_checks_report_no_unfinished_run_for_running_run_with_valid_lease() -> None:
    services.start("chaos line", EMPTY)
    Run.objects.update(state="running", last_message_at=Now() - timedelta(seconds=10))
    Thread.objects.update(lease_until=Now() + timedelta(seconds=10))
    assert invariants.unfinished() == []


def test_invariant_checks_report_a_message_for_a_run_that_does_not_exist(finished: Run) -> None:
    async_task(dispatcher.ADVANCE, str(uuid.uuid4()))
    assert OrmQ.objects.count() == 1
    assert ["isn't there" in fault for fault in invariants.astray()] == [True]


def test_invariant_checks_of_a_thread_read_all_rows_of_that_thread_only(finished: Run) -> None:
    services.start("chaos line", EMPTY)
    (record,) = invariants.records([finished.thread_id])
    assert isinstance(record, Record)
    assert [run.pk for run in record.runs] == [finished.pk]
    for name, model in (("interrupts", Interrupt), ("writes", PendingWrite)):
        assert len(getattr(record, name)) == model.objects.filter(thread=record.thread).count()
    assert len(record.decisions) == 2
