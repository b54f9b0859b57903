"""Isolation of threads: operations don't affect threads with equal contents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db.models import F, Model, QuerySet
from django.db.models.functions import Now

from hitl_django import run_leases, services
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.links.errors import LinkNotFound
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import (
    create_review_link,
    decide_by_link,
    get_link_states,
    list_links,
    revoke_link,
)
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.savers.checkpoint import Commit, Outcome
from hitl_django.errors import InterruptNotFound
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Comment,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.run_leases import RunFence
from hitl_django.worker import runner
from tests.reading import values_of

Advance = Callable[[], int]
Make = Callable[..., User]
DAY = timedelta(days=1)

#: The tables of a thread, and the path from each table to the thread.
OWNED: dict[type[Model], str] = {
    Thread: "pk", Run: "thread", Checkpoint: "thread", ChannelBlob: "thread",
    PendingWrite: "thread", Interrupt: "thread", Decision: "interrupt__thread",
    AuditEntry: "thread", RunEvent: "run__thread", Comment: "interrupt__thread",
    ReviewLink: "interrupt__thread",
}  # fmt: skip


def rows_of(thread: int) -> dict[str, list[Any]]:
    return {
        model.__name__: sorted(map(str, model._default_manager.filter(**{path: thread}).values()))
        for model, path in OWNED.items()
    }


@pytest.fixture
def operator(user: Make) -> User:
    return user(
        "olga", "view_interrupt", "decide_interrupt", "assign_interrupt", "take_over_interrupt",
        "view_run", "view_thread", "operate_run", "link_interrupt",
    )  # fmt: skip


#: Actions of users and the sweep on a pending interrupt, with their arguments.
WAITING: dict[str, Callable[[Interrupt, User], object]] = {
    "decide": lambda interrupt, by: services.decide(interrupt.pk, "reject", by=by),
    "decide again": lambda interrupt, by: (
        Interrupt.objects.filter(pk=interrupt.pk).update(claim_required=True),
        services.claim(interrupt.pk, by=by),
        services.decide(interrupt.pk, "reject", by=by),
    ),
    "approve": lambda interrupt, by: services.decide(interrupt.pk, "approve", by=by),
    "propose": lambda interrupt, by: services.decide(interrupt.pk, "edit", {"amount": 6}, by=by),
    "claim": lambda interrupt, by: services.claim(interrupt.pk, by=by),
    "assign": lambda interrupt, by: services.assign(interrupt.pk, to=by, by=by, via="code"),
    "snooze": lambda interrupt, by: services.snooze(
        interrupt.pk, until=interrupt.created_at + DAY, by=by
    ),
    "comment": lambda interrupt, by: services.comment(interrupt.pk, "Why?", by=by),
    "cancel": lambda interrupt, by: services.cancel(interrupt.run_id, by=by),
    "link": lambda interrupt, by: (
        Interrupt.objects.filter(pk=interrupt.pk).update(quorum=1),
        create_review_link(interrupt.pk, by=by, name="Dana", expires=DAY),
    ),
    "erase": lambda interrupt, by: (
        services.cancel(interrupt.run_id),
        services.erase_thread(interrupt.thread.thread_id),
    ),
    "fork": lambda interrupt, by: services.fork(
        interrupt.thread.thread_id, oldest(interrupt.thread_id), by=by
    ),
    "expire": lambda interrupt, by: (late(interrupt), services.expire_due()),
    "overdue": lambda interrupt, by: (
        Interrupt.objects.filter(pk=interrupt.pk).update(due_at=Now() - DAY),
        services.mark_overdue(),
    ),
}


def oldest(thread: int) -> str:
    checkpoints = Checkpoint.objects.filter(thread=thread).order_by("checkpoint_id")
    return checkpoints.values_list("checkpoint_id", flat=True)[0]


def late(interrupt: Interrupt) -> None:
    Interrupt.objects.filter(pk=interrupt.pk).update(expires_at=F("created_at") - DAY)


@pytest.mark.parametrize("name", WAITING)
def test_service_call_changes_no_rows_of_other_threads(
    advance: Advance, operator: User, name: str
) -> None:
    asking = {"payload": {"amount": 5}, "terms": {"quorum": 2}}
    runs = [services.start("reviewed", asking) for _ in range(3)]
    advance()
    Interrupt.objects.update(
        expiry={"seconds": 86400, "then": "cancel"}, expires_at=Now() + DAY, due_at=Now() + DAY
    )
    first, interrupt, last = (Interrupt.objects.get(run=run.id) for run in runs)
    others = [rows_of(first.thread_id), rows_of(last.thread_id)]
    own = rows_of(interrupt.thread_id)

    WAITING[name](interrupt, operator)

    assert [rows_of(first.thread_id), rows_of(last.thread_id)] == others
    assert rows_of(interrupt.thread_id) != own


def test_release_of_one_interrupt_preserves_claims_on_other_interrupts(
    advance: Advance, operator: User
) -> None:
    runs = [services.start("approval", {"text": "x"}) for _ in range(3)]
    advance()
    for interrupt in Interrupt.objects.all():
        services.claim(interrupt.pk, by=operator)
    first, last = (Interrupt.objects.get(run=run.id) for run in (runs[0], runs[-1]))

    services.release(first.pk, by=operator)
    services.release(last.pk)  # code may act regardless of the claim

    (held,) = Interrupt.objects.filter(claimed_by=operator)
    assert held.run_id == runs[1].id


def test_interrupt_pending_again_after_resume_changes_no_other_thread(advance: Advance) -> None:
    runs = [services.start("panel", {"log": []}) for _ in range(3)]
    advance()
    left, right = Interrupt.objects.filter(run=runs[1].id).order_by("task_path")
    others = Interrupt.objects.exclude(run=runs[1].id)
    same = others.filter(task_path=right.task_path)
    assert same.update(interrupt_id=right.interrupt_id, payload="another") == 2
    before = list(others.order_by("pk").values())

    services.decide(left.pk, "respond", "L")
    advance()

    assert list(others.order_by("pk").values()) == before
    assert Interrupt.objects.get(pk=right.pk).status == "pending"
    assert Run.objects.get(pk=runs[1].id).state == "interrupted"


def test_revoke_link_leaves_other_links_of_the_interrupt_open(
    advance: Advance, operator: User
) -> None:
    services.start("approval", {"text": "x"})
    advance()
    interrupt = Interrupt.objects.get()
    names = ("Dana", "Eli", "Fay")
    links = [create_review_link(interrupt.pk, name=name, expires=DAY) for name in names]

    revoke_link(links[1].id, by=operator)

    states = get_link_states([link.id for link in links])
    assert [states[link.id] for link in links] == ["open", "revoked", "open"]


def test_decide_by_link_leaves_links_of_other_interrupts_open(advance: Advance) -> None:
    runs = [services.start("approval", {"text": "x"}) for _ in range(3)]
    advance()
    interrupts = [Interrupt.objects.get(run=run.id) for run in runs]
    links = [create_review_link(interrupt.pk, name="Dana") for interrupt in interrupts]
    again = create_review_link(interrupts[1].pk, name="Eli")
    others = [rows_of(interrupts[0].thread_id), rows_of(interrupts[2].thread_id)]

    decide_by_link(links[1].url.rstrip("/").rpartition("/")[2], "approve")

    assert [rows_of(interrupts[0].thread_id), rows_of(interrupts[2].thread_id)] == others
    states = get_link_states([link.id for link in (*links, again)])
    assert [states[link.id] for link in links] == ["open", "used", "open"]
    assert states[again.id] == "decided"


class AllButOne(ModelPermissionPolicy):
    """Django's permissions, with one hidden interrupt."""

    hidden: ClassVar[set[UUID]] = set()

    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        return super().visible_interrupts(user, interrupts).exclude(pk__in=self.hidden)


@pytest.mark.promise("P18")
def test_service_calls_of_a_user_do_not_find_interrupt_hidden_from_the_user_by_policy(
    advance: Advance, operator: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [services.start("approval", {"text": "x"}) for _ in range(3)]
    advance()
    first, interrupt, last = (Interrupt.objects.get(run=run.id) for run in runs)
    link = create_review_link(interrupt.pk, name="Dana")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.AllButOne"}
    monkeypatch.setattr(AllButOne, "hidden", {interrupt.pk})

    for seen in (first, last):
        services.assign(seen.pk, to=operator)
        assert create_review_link(seen.pk, name="Eli", by=operator).state == "open"
    with pytest.raises(InvalidInputError):
        services.assign(interrupt.pk, to=operator)
    with pytest.raises(InterruptNotFound):
        create_review_link(interrupt.pk, name="Eli", by=operator)
    with pytest.raises(InterruptNotFound):
        list_links(interrupt.pk, by=operator)
    with pytest.raises(LinkNotFound):
        revoke_link(link.id, by=operator)


#: Worker operations on a claimed run, with the resulting state and the changes to other runs.
WORKED: dict[str, Callable[[run_leases.RunLease], object]] = {
    "renew": lambda lease: lease.thread.renew(),
    "give up": lambda lease: run_leases.release(lease, ValueError(), to_park=False),
    "park": lambda lease: run_leases.release(lease, ValueError(), to_park=True),
    "finish": lambda lease: commit(lease, Outcome("finished")),
    "fail": lambda lease: commit(lease, Outcome("failed", error=ValueError())),
    "leave": lambda lease: commit(lease, Outcome("drained")),
    "advance": lambda lease: (lose(lease), runner.advance(str(lease.run_id))),
    "cancel": lambda lease: services.cancel(lease.run_id),
}


def commit(lease: run_leases.RunLease, outcome: Outcome | None) -> None:
    saver = DjangoSaver(lease.thread, RunFence(lease))
    place = {"configurable": {"thread_id": lease.thread.thread_id}}
    saver.commit(Commit(place, outcome=outcome))


def lose(lease: run_leases.RunLease) -> None:
    threads = Thread.objects.filter(pk=lease.thread.pk)
    threads.update(lease_until=Now() - timedelta(seconds=1))


@pytest.mark.parametrize("name", WORKED)
def test_run_lease_call_changes_no_rows_of_other_threads(advance: Advance, name: str) -> None:
    runs = [services.start("steps", {"log": []}) for _ in range(3)]
    held = [run_leases.claim(run.id) for run in runs]
    first, lease, last = (each for each in held if each)
    others = [rows_of(first.thread.pk), rows_of(last.thread.pk)]
    own = rows_of(lease.thread.pk)

    WORKED[name](lease)

    assert [rows_of(first.thread.pk), rows_of(last.thread.pk)] == others
    assert rows_of(lease.thread.pk) != own


def test_worker_resumes_each_of_three_runs_from_the_checkpoint_of_its_thread(
    advance: Advance,
) -> None:
    runs = [services.start("steps", {"log": [name]}) for name in "xyz"]
    held = [lease for lease in (run_leases.claim(run.id) for run in runs) if lease]
    for lease in reversed(held):
        lose(lease)
        runner.advance(str(lease.run_id))

    threads = [Run.objects.get(pk=run.id).thread for run in runs]
    assert [values_of(thread)["log"][0] for thread in threads] == ["x", "y", "z"]


def test_run_step_ignores_steps_of_subgraphs_and_of_other_threads(advance: Advance) -> None:
    run = services.start("nested", {"log": []})
    advance()
    services.start("steps", {"log": []})
    advance()
    services.decide(Interrupt.objects.get(node="deep").pk, "respond", "D")
    advance()

    asking = Interrupt.objects.filter(status="pending").values_list("node", flat=True)
    assert sorted(asking) == ["mid", "top"]
    assert Checkpoint.objects.exclude(ns="").order_by("-checkpoint_id")[0].step == 1
    assert Run.objects.get(pk=run.id).step == 0


@pytest.mark.parametrize("state", ["failed", "parked"])
def test_retry_of_one_run_leaves_failed_runs_of_other_threads_unchanged(
    advance: Advance, operator: User, state: str
) -> None:
    runs = [services.start("steps", {"log": []}) for _ in range(3)]
    Run.objects.update(state=state, error="no more room", finished_at=Now())
    Thread.objects.update(attempts=3, ended_at=Now())
    threads = [Run.objects.get(pk=run.id).thread_id for run in runs]
    others = [rows_of(threads[0]), rows_of(threads[2])]

    services.retry(runs[1].id, by=operator)

    assert [rows_of(threads[0]), rows_of(threads[2])] == others
    run = Run.objects.select_related("thread").get(pk=runs[1].id)
    assert (run.state, run.error, run.finished_at) == ("queued", "", None)
    assert (run.thread.attempts, run.thread.ended_at) == (0, None)


def test_second_run_clears_ended_at_of_its_thread_only(advance: Advance) -> None:
    runs = [services.start("steps", {"log": []}) for _ in range(3)]
    advance()
    assert not Thread.objects.filter(ended_at=None).exists()

    services.start("steps", {"log": []}, thread_id=runs[1].thread_id)

    (woken,) = Thread.objects.filter(ended_at=None)
    assert woken.thread_id == runs[1].thread_id


def test_erase_thread_leaves_rows_of_other_threads_unchanged(
    advance: Advance, operator: User
) -> None:
    runs = [services.start("approval", {"text": "x"}) for _ in range(3)]
    advance()
    for run in runs:
        interrupt = Interrupt.objects.get(run=run.id)
        services.comment(interrupt.pk, "Why not?", by=operator)
        create_review_link(interrupt.pk, name="Dana", email="dana@example.com", expires=DAY)
        services.decide(interrupt.pk, "respond", {"text": "y"}, by=operator, reason="Because.")
        about = {"metadata": {"about": run.thread_id}, "subject_id": "7"}
        Thread.objects.filter(thread_id=run.thread_id).update(**about)
    advance()
    Decision.objects.update(patch=[{"op": "remove", "path": "/a"}], refusal="No.")
    first, thread, last = (Run.objects.get(pk=run.id).thread_id for run in runs)
    others, own = [rows_of(first), rows_of(last)], rows_of(thread)

    services.erase_thread(runs[1].thread_id, by=operator)

    assert [rows_of(first), rows_of(last)] == others
    left = rows_of(thread)
    assert Run.objects.get(pk=runs[1].id).state == Run.State.SUCCEEDED
    for name in ("Checkpoint", "RunEvent"):
        assert own[name]
        assert not left[name]
    assert "Why not?" not in str(left)
    assert "dana@example.com" not in str(left)
