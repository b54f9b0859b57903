"""Workers whose lease has expired: no later writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from hitl_django import run_leases, services, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import InterruptChangedError
from hitl_django.engine.savers.checkpoint import Commit, Outcome, PendingInterrupt, TaskWrites
from hitl_django.engine.types import Interrupt as Asked
from hitl_django.errors import LeaseLostError
from hitl_django.leases import queries as lease_queries
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, RunEvent, Thread
from hitl_django.run_leases import RunFence, RunLease, queries, transitions
from hitl_django.run_leases.interrupts import supersede_interrupts
from tests.chaos import invariants

Advance = Callable[[], int]


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


def claimed(run_id: Any) -> RunLease:
    lease = run_leases.claim(run_id)
    assert lease is not None
    return lease


def replaced(graph: str, given: Any) -> tuple[RunLease, RunLease]:
    info = services.start(graph, given)
    frozen = claimed(info.id)
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    return frozen, claimed(info.id)


def commit(lease: RunLease, outcome: Outcome | None) -> None:
    saver = DjangoSaver(lease.thread, RunFence(lease))
    place = {"configurable": {"thread_id": lease.thread.thread_id}}
    writes = () if outcome else [TaskWrites("t", "", [("log", ["late"])])]
    saver.commit(Commit(place, writes, outcome=outcome))


INTERRUPT = PendingInterrupt(Asked("Sure?", "0" * 32), "work", "t", "work", "", "")

#: Operations at which a worker may be frozen.
LAST_ACTS: dict[str, Callable[[RunLease], object]] = {
    "go on": lambda lease: commit(lease, None),
    "finish": lambda lease: commit(lease, Outcome("finished")),
    "fail": lambda lease: commit(lease, Outcome("failed", error=ValueError())),
    "run out of steps": lambda lease: commit(lease, Outcome("out_of_steps", error=ValueError())),
    "ask": lambda lease: commit(lease, Outcome("interrupted", (INTERRUPT,))),
    "stop at a breakpoint": lambda lease: commit(lease, Outcome("interrupted")),
    "leave it to another": lambda lease: commit(lease, Outcome("drained")),
    "give up": lambda lease: run_leases.release(lease, ValueError(), to_park=False),
    "park": lambda lease: run_leases.release(lease, ValueError(), to_park=True),
}


@pytest.mark.promise("P10")
@pytest.mark.parametrize("name", LAST_ACTS)
def test_worker_whose_lease_was_taken_over_cannot_change_or_release_the_new_lease(
    advance: Advance, name: str
) -> None:
    frozen, at_work = replaced("steps", {"log": []})
    before = [list(model.objects.values()) for model in (Thread, Run, Checkpoint, Interrupt)]

    with pytest.raises(LeaseLostError):
        LAST_ACTS[name](frozen)

    after = [list(model.objects.values()) for model in (Thread, Run, Checkpoint, Interrupt)]
    assert after == before
    assert at_work.thread.renew()
    commit(at_work, Outcome("finished"))
    assert invariants.faults() == []


@pytest.mark.promise("P10")
def test_worker_whose_lease_was_taken_over_cannot_park_the_run(advance: Advance) -> None:
    frozen, at_work = replaced("steps", {"log": []})
    before = [list(model.objects.values()) for model in (Thread, Run)]

    transitions.park(frozen, "The run got nowhere.")

    assert [list(model.objects.values()) for model in (Thread, Run)] == before
    commit(at_work, Outcome("finished"))
    assert invariants.faults() == []


@pytest.mark.promise("P10")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(
            (lease_queries, name)
            for name in ("RELEASE", "RENEW", "RENEW_AFTER_PROGRESS", "RELEASE_AFTER_PROGRESS")
        ),
        *((queries, name) for name in ("REST", "ASK", "GIVE_BACK")),
    ],
)
def test_lease_statement_with_outdated_epoch_changes_no_thread(
    advance: Advance, module: ModuleType, name: str
) -> None:
    frozen, at_work = replaced("steps", {"log": []})
    bystander = claimed(services.start("steps", {"log": []}).id)
    Thread.objects.filter(pk=bystander.thread.pk).update(epoch=at_work.thread.epoch)
    statement = getattr(module, name)
    before = list(Thread.objects.order_by("pk").values())

    assert statement.run("default", **frozen.thread.values()) == 0
    assert list(Thread.objects.order_by("pk").values()) == before
    assert statement.run("default", **at_work.thread.values()) == 1
    changed = [thread["id"] for thread in Thread.objects.values() if thread not in before]
    assert changed == [at_work.thread.pk]


@pytest.mark.promise("P10")
@pytest.mark.parametrize("name", ["BEGIN", "PAUSE", "END", "REQUEUE"])
@pytest.mark.parametrize("state", sorted({*Run.State.values} - {"queued", "running"}))
def test_run_statement_changes_no_run_that_left_the_queued_and_running_states(
    advance: Advance, name: str, state: str
) -> None:
    info = services.start("steps", {"log": []})
    Run.objects.update(state=state)
    left = {"state": "failed", "step": 1, "error": "late", "traceback": None, "last_event": 9}
    assert getattr(queries, name).run("default", run=info.id, **left) == 0
    run = Run.objects.get()
    assert (run.state, run.error) == (state, "")


@pytest.mark.promise("P10")
def test_claim_of_one_run_leaves_two_other_due_runs_unchanged(advance: Advance) -> None:
    first, second, last = (services.start("steps", {"log": []}) for _ in range(3))
    before = list(Thread.objects.exclude(thread_id=second.thread_id).order_by("pk").values())
    claimed(second.id)
    after = list(Thread.objects.exclude(thread_id=second.thread_id).order_by("pk").values())
    assert after == before
    states = dict(Run.objects.values_list("pk", "state"))
    assert states == {first.id: "queued", second.id: "running", last.id: "queued"}
    assert run_leases.claim(second.id) is None
    assert Thread.objects.get(thread_id=second.thread_id).attempts == 1


@pytest.mark.promise("P11")
@pytest.mark.parametrize("tries", [1, 3])
def test_commit_of_run_changes_thread_row_only_to_reset_attempts(
    advance: Advance, tries: int
) -> None:
    info = services.start("steps", {"log": []})
    Thread.objects.update(attempts=tries - 1)
    lease = claimed(info.id)
    before = Thread.objects.values().get()
    for _ in range(2):
        commit(lease, None)
    after = Thread.objects.values().get()
    assert (before.pop("attempts"), after.pop("attempts")) == (tries, 1)
    if tries > 1:  # the lease starts now, possibly in the same millisecond as the previous lease
        assert after.pop("lease_until") >= before.pop("lease_until")
    assert after == before


@pytest.mark.promise("P10")
def test_first_claim_reads_newest_checkpoint_in_its_transaction_but_claim_after_lost_lease_does_not(
    advance: Advance,
) -> None:
    frozen, at_work = replaced("steps", {"log": []})
    assert frozen.stored is not None
    assert [row.thread for row in frozen.stored.newest] == [frozen.thread.pk]
    assert not frozen.stored.has_waiting
    assert at_work.stored is None


@pytest.mark.promise("P8")
def test_released_lease_is_not_renewed_by_renew_statements(advance: Advance) -> None:
    lease = claimed(services.start("steps", {"log": []}).id)
    Thread.objects.update(lease_until=None)
    for name in ("RENEW", "RENEW_AFTER_PROGRESS"):
        assert getattr(lease_queries, name).run("default", **lease.thread.values()) == 0
    assert Thread.objects.get().lease_until is None


@pytest.mark.promise("P10")
def test_fork_increments_the_epoch_of_its_thread(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    advance()
    before = Thread.objects.get().epoch
    first = Checkpoint.objects.order_by("checkpoint_id")[0].checkpoint_id
    services.fork(info.thread_id, first)
    assert Thread.objects.get().epoch == before + 1
    assert Checkpoint.objects.order_by("-checkpoint_id")[0].epoch == before + 1


@pytest.mark.parametrize(
    ("outcome", "state", "told"),
    [
        (Outcome("drained"), "queued", {"reason": "continued"}),
        (Outcome("failed", error=InterruptChangedError("other words")), "parked", {}),
    ],
)
def test_drained_or_parked_run_has_no_end_time_and_preserves_pending_interrupts(
    advance: Advance, outcome: Outcome, state: str, told: dict[str, str]
) -> None:
    info = services.start("panel", {"log": []})
    advance()
    left, right = Interrupt.objects.filter(run=info.id).order_by("task_path")
    services.decide(left.pk, "respond", "L")
    before = list(Interrupt.objects.filter(pk=right.pk).values())
    lease = claimed(info.id)
    long_ago = Now() - timedelta(days=1)
    Run.objects.update(queued_at=long_ago, last_message_at=long_ago)
    then = Run.objects.get().queued_at

    commit(lease, outcome)

    run = Run.objects.select_related("thread").get()
    assert (run.state, run.finished_at, run.thread.ended_at) == (state, None, None)
    assert (run.queued_at > then, run.last_message_at > then) == (2 * (state == "queued",))
    assert list(Interrupt.objects.filter(pk=right.pk).values()) == before
    event = RunEvent.objects.latest("seq")
    assert (event.kind, event.data) == (state, told)


def asked_again(*rows: Interrupt) -> tuple[PendingInterrupt, ...]:
    return tuple(
        PendingInterrupt(
            Asked(row.payload, row.interrupt_id), row.node, row.task_id, row.task_path,
            row.checkpoint_ns, row.checkpoint_id,
        )
        for row in rows
    )  # fmt: skip


@pytest.mark.parametrize(("answered", "state"), [(1, "interrupted"), (2, "queued")])
def test_run_waiting_for_all_responses_is_queued_if_all_were_given_while_the_run_was_pausing(
    advance: Advance, answered: int, state: str
) -> None:
    info = services.start("jury", {"log": []})
    advance()
    rows = list(Interrupt.objects.order_by("task_path")[:2])
    Run.objects.update(state="queued")
    lease = claimed(info.id)
    for row in rows[:answered]:
        services.decide(row.pk, "respond", "guilty")
    commit(lease, Outcome("interrupted", asked_again(*rows)))
    assert Run.objects.get().state == state


def test_run_ending_without_pending_interrupts_writes_no_supersede_audit_entry(
    advance: Advance,
) -> None:
    lease = claimed(services.start("steps", {"log": []}).id)
    supersede_interrupts(lease, "default")
    assert not AuditEntry.objects.filter(verb="supersede").exists()


def test_run_answered_while_pausing_is_queued_with_continued_event(
    advance: Advance,
) -> None:
    info = services.start("panel", {"log": []})
    advance()
    left, right = Interrupt.objects.filter(run=info.id).order_by("task_path")
    Run.objects.update(state="queued")
    lease = claimed(info.id)
    services.decide(left.pk, "respond", "L")

    commit(lease, Outcome("interrupted", asked_again(left, right)))

    event = RunEvent.objects.latest("seq")
    assert (event.kind, event.data) == ("queued", {"reason": "continued"})
    assert Run.objects.get().state == "queued"
    assert list(Interrupt.objects.filter(status="pending")) == [right]


@pytest.mark.parametrize("status", ["finished", "failed", "out_of_steps"])
def test_pending_interrupts_of_run_are_superseded_and_audited_when_run_ends(
    advance: Advance, status: Any
) -> None:
    info = services.start("panel", {"log": []})
    other = services.start("panel", {"log": []})
    advance()
    left, right = Interrupt.objects.filter(run=info.id).order_by("task_path")
    services.decide(left.pk, "respond", "L")
    services.claim(right.pk, by=User.objects.create_superuser("somebody"))
    lease = claimed(info.id)

    commit(lease, Outcome(status, error=ValueError("no") if status != "finished" else None))

    assert Run.objects.get(pk=info.id).finished_at is not None
    left.refresh_from_db()
    right.refresh_from_db()
    assert (left.status, right.status, right.version) == ("decided", "superseded", 2)
    assert (right.claimed_by, right.claimed_until) == (None, None)
    assert right.closed_at is not None
    (entry,) = AuditEntry.objects.filter(verb="supersede")
    assert entry.detail["interrupts"] == [str(right.pk)]
    assert Interrupt.objects.filter(run=other.id, status="pending").count() == 2
    assert [fault for fault in invariants.faults() if "still asks" in fault] == []
