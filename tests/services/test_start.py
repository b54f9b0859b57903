"""start: stored rows, and refused starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import IntegrityError, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django_q.models import OrmQ

from hitl_django import audit, leases, services
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import (
    EmptyInputError,
    InvalidInputError,
    PayloadError,
    PendingInterruptsError,
    ThreadNotFound,
    UnserializableError,
)
from hitl_django.errors import (
    IdempotencyKeyReusedError,
    NotAllowedError,
    RunStateError,
    UnknownGraphError,
)
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.task_queue import dispatcher
from tests.messages import MESSAGES

Advance = Callable[[], int]


def test_start_stores_thread_run_checkpoints_and_audit_entry_before_returning(
    advance: Advance,
) -> None:
    info = services.start("approval", {"text": "x"}, metadata={"source": "mail"})
    run = Run.objects.get()
    assert (info.id, info.state, info.created, info.graph) == (run.pk, "queued", True, "approval")
    assert run.thread.thread_id == info.thread_id
    assert run.thread.metadata == {"source": "mail"}
    assert [*Checkpoint.objects.order_by("step").values_list("source", "step")] == [
        ("input", -1),
        ("loop", 0),
    ]
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.actor_label, entry.via) == ("start", "system", "code")
    assert audit.find_first_fault(run.thread) is None


def test_generated_thread_ids_sort_in_creation_order(advance: Advance) -> None:
    made = [services.start("approval", {"text": "x"}).thread_id for _ in range(20)]
    assert made == sorted(made)


def test_start_stores_user_label_subject_and_via(
    user: Callable[..., User], advance: Advance
) -> None:
    starter = user("sam", "start_run")
    about = Group.objects.create(name="order 7")
    services.start("approval", {"text": "x"}, by=starter, via="api", subject=about)
    run = Run.objects.get()
    assert (run.started_by, run.started_by_label) == (starter, "sam")
    assert run.thread.subject == about
    assert AuditEntry.objects.get().via == "api"


def test_start_on_thread_with_different_subject_raises_invalid_input_error(
    advance: Advance,
) -> None:
    about, other = (Group.objects.create(name=name) for name in ("order 7", "order 8"))
    services.start("approval", {"text": "x"}, thread_id="t")
    advance()
    with pytest.raises(PendingInterruptsError):
        services.start("approval", {"text": "x"}, thread_id="t", subject=about)
    again = {"thread_id": "t", "on_pending": "discard"}
    assert Thread.objects.get().subject is None
    services.start("approval", {"text": "x"}, subject=about, **again)
    advance()
    with pytest.raises(InvalidInputError, match="'t' has a different subject"):
        services.start("approval", {"text": "x"}, subject=other, **again)
    services.start("approval", {"text": "x"}, subject=about, **again)
    assert Thread.objects.get().subject == about


@pytest.mark.promise("P9")
@pytest.mark.django_db(transaction=True)
def test_start_in_rolled_back_transaction_stores_no_rows_and_no_worker_task(
    settings: Any,
) -> None:
    settings.HITL = MESSAGES
    with transaction.atomic():
        services.start("approval", {"text": "x"})
        assert OrmQ.objects.count() == 1
        transaction.set_rollback(True)
    assert not Thread.objects.exists()
    assert not Run.objects.exists()
    assert not OrmQ.objects.exists()


def starts_and_fails(request: HttpRequest) -> HttpResponse:
    services.start("approval", {"text": "x"}, key="from a view")
    services.start("approval", {"text": "x"}, thread_id="from a view")
    raise RuntimeError("what came after it failed")


urlpatterns = [path("", starts_and_fails)]


@pytest.mark.promise("P9")
@pytest.mark.django_db(transaction=True)
@pytest.mark.urls(__name__)
def test_start_in_view_failing_with_atomic_requests_stores_no_rows(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = MESSAGES
    client.raise_request_exception = False
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    assert client.get("/").status_code == 500
    assert [model.objects.count() for model in (Thread, Run, OrmQ)] == [0, 0, 0]
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", False)
    assert client.get("/").status_code == 500
    assert Run.objects.count() == OrmQ.objects.count() == 2


def test_start_with_repeated_key_and_input_returns_the_same_run(advance: Advance) -> None:
    first = services.start("approval", {"text": "x"}, key="order-7")
    again = services.start("approval", {"text": "x"}, key="order-7")
    other = services.start("interview", {"log": []}, key="order-7")
    assert (again.id, again.created) == (first.id, False)
    assert other.created
    assert Run.objects.count() == 2
    assert AuditEntry.objects.count() == 2


def test_start_with_different_keys_creates_different_runs(advance: Advance) -> None:
    keys = ("order-7", "order-8", "order-9")
    runs = {key: services.start("approval", {"text": "x"}, key=key).id for key in keys}
    for key in keys:
        assert services.start("approval", {"text": "x"}, key=key).id == runs[key]
    assert Run.objects.count() == 3


class Named(ModelPermissionPolicy):
    """Policy that shows users the threads that are named after them."""

    def visible_threads(self, user: Any, threads: QuerySet[Thread]) -> QuerySet[Thread]:
        return threads.filter(thread_id__startswith=user.username)

    def visible_runs(self, user: Any, runs: QuerySet[Run]) -> QuerySet[Run]:
        return runs.filter(thread__thread_id__startswith=user.username)

    def may_view_state(self, user: Any, thread: Thread) -> bool:
        return True


@pytest.mark.promise("P18")
def test_start_with_key_or_thread_of_run_hidden_by_policy_raises_key_reused_or_not_found_error(
    user: Callable[..., User], advance: Advance, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Named"}
    sam, lea = (user(name, "start_run") for name in ("sam", "lea"))
    for number, name in enumerate(("sam", "lea", "sam")):
        key, thread_id = f"key {number}", f"{name} {number}"
        services.start("steps", {"log": []}, key=key, thread_id=thread_id)
    advance()
    with pytest.raises(IdempotencyKeyReusedError):
        services.start("steps", {"log": []}, key="key 1", by=sam)
    assert services.start("steps", {"log": []}, key="key 0", by=sam).thread_id == "sam 0"
    with pytest.raises(ThreadNotFound):
        services.start("steps", {"log": []}, thread_id="sam 0", by=lea)
    assert services.start("steps", {"log": []}, thread_id="lea 1", by=lea).created


def test_start_with_repeated_key_and_different_input_raises_key_reused_error(
    advance: Advance, unchanged: Callable[[], None]
) -> None:
    services.start("approval", {"text": "x"}, key="order-7")
    unchanged()
    with pytest.raises(IdempotencyKeyReusedError, match="order-7"):
        services.start("approval", {"text": "y"}, key="order-7")
    unchanged()


@pytest.mark.promise("P2")
@pytest.mark.parametrize(
    "start", [services.start, async_to_sync(services.astart)], ids=["start", "astart"]
)
@pytest.mark.parametrize("first", [True, False], ids=["other", "none"])
def test_start_with_repeated_key_and_different_subject_raises_key_reused_error(
    user: Callable[..., User], unchanged: Callable[[], None], start: Any, first: bool
) -> None:
    ann, bob = user("ann"), user("bob")
    start("approval", {"text": "x"}, key="order-7", subject=ann if first else None)
    unchanged()
    with pytest.raises(IdempotencyKeyReusedError, match="order-7"):
        start("approval", {"text": "x"}, key="order-7", subject=bob)
    unchanged()


@pytest.mark.promise("P2")
def test_start_with_repeated_key_and_same_or_no_subject_returns_the_same_run(
    user: Callable[..., User],
) -> None:
    ann = user("ann")
    first = services.start("approval", {"text": "x"}, key="order-7", subject=ann)
    ref = services.SubjectRef("auth.user", str(ann.pk))
    for subject in (ann, ref, None):
        again = services.start("approval", {"text": "x"}, key="order-7", subject=subject)
        assert (again.id, again.created) == (first.id, False)


@pytest.mark.promise("P2")
def test_start_with_repeated_key_and_different_thread_id_raises_key_reused_error(
    unchanged: Callable[[], None],
) -> None:
    first = services.start("approval", {"text": "x"}, key="order-7", thread_id="a")
    unchanged()
    with pytest.raises(IdempotencyKeyReusedError, match="order-7"):
        services.start("approval", {"text": "x"}, key="order-7", thread_id="b")
    unchanged()
    for thread_id in ("a", None):
        again = services.start("approval", {"text": "x"}, key="order-7", thread_id=thread_id)
        assert (again.id, again.created) == (first.id, False)


@pytest.mark.promise("P2")
def test_start_with_repeated_key_of_run_in_erased_thread_returns_the_same_run(
    user: Callable[..., User],
) -> None:
    """Erasing removes the context and the subject, so the repeated call is not compared."""
    sent = {"key": "order-7", "subject": user("ann"), "configurable": {"tenant": "t1"}}
    first = services.start("approval", {"text": "x"}, **sent)
    services.cancel(first.id)
    services.erase_thread(first.thread_id)
    again = services.start("approval", {"text": "x"}, **sent)
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(IdempotencyKeyReusedError):
        services.start("approval", {"text": "y"}, **sent)


def test_start_with_new_key_runs_only_prepared_queries(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start("approval", {"text": "x"}, key="first")  # prepares the queries

    def compile_query(self: SQLCompiler, *args: Any, **options: Any) -> Any:
        raise AssertionError(f"compiled a query of {self.query.model}")

    monkeypatch.setattr(SQLCompiler, "as_sql", compile_query)
    assert services.start("approval", {"text": "x"}, key="second").created


def test_start_that_loses_race_for_its_key_returns_run_of_the_winner(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hitl_django.services.runs import start

    winner = services.start("approval", {"text": "x"}, key="k")
    look, blind = start._Start.found, iter([True])

    def found(request: Any) -> Any:
        return None if next(blind, False) else look(request)

    monkeypatch.setattr(start._Start, "found", found)
    late = services.start("approval", {"text": "x"}, key="k")
    assert (late.id, late.created) == (winner.id, False)
    assert Thread.objects.count() == 1


@pytest.mark.parametrize(
    ("graph", "given", "error", "words"),
    [
        ("nosuch", {"text": "x"}, UnknownGraphError, "'nosuch'.*approval"),
        ("approval", {"txet": "x"}, InvalidInputError, "txet"),
        ("approval", {"text": 5}, InvalidInputError, "text"),
        ("approval", ["text"], InvalidInputError, "Invalid graph input: "),
        ("approval", None, EmptyInputError, "no input"),
        ("approval", {"text": "x", "answer": object()}, UnserializableError, "answer"),
        ("approval", {"text": "x", "answer": Group()}, UnserializableError, "the primary key"),
        ("approval", {"text": "x", "answer": "\ud800"}, PayloadError, "answer"),
        ("approval", {"text": "x", "answer": "x" * (17 << 20)}, PayloadError, "bytes"),
    ],
)
def test_start_with_invalid_graph_or_input_raises_error_and_stores_no_rows(
    advance: Advance, graph: str, given: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        services.start(graph, given)
    assert not Thread.objects.exists()
    assert advance() == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"key": ""},
        {"key": "x" * 256},
        {"key": "a\x00b"},
        {"thread_id": ""},
        {"key": 7},
        {"thread_id": "a\nb"},
        {"thread_id": UUID(int=7)},
        {"metadata": {"when": object()}},
        {"metadata": {"n": float("nan")}},
        {"metadata": ["a"]},
        {"on_pending": "ignore"},
    ],
)
def test_start_with_invalid_key_thread_id_or_metadata_raises_error_and_stores_no_rows(
    advance: Advance, bad: dict[str, Any]
) -> None:
    with pytest.raises((InvalidInputError, UnserializableError, ValueError)):
        services.start("approval", {"text": "x"}, **bad)
    assert not Thread.objects.exists()


@pytest.mark.promise("P18")
@pytest.mark.parametrize("right", [None, "view_run", "view_thread_state"])
def test_start_with_key_of_run_with_input_hidden_from_user_raises_key_reused_error(
    user: Callable[..., User], advance: Advance, right: str | None
) -> None:
    services.start("approval", {"text": "x"}, key="order-7")
    rights = ["start_run"] if right is None else ["start_run", right]
    with pytest.raises(IdempotencyKeyReusedError):
        services.start("approval", {"text": "x"}, key="order-7", by=user("sam", *rights))
    seeing = user("lea", "start_run", "view_run", "view_thread_state")
    assert not services.start("approval", {"text": "x"}, key="order-7", by=seeing).created
    own = services.start("approval", {"text": "x"}, key="own", by=User.objects.get(username="sam"))
    again = services.start(
        "approval", {"text": "x"}, key="own", by=User.objects.get(username="sam")
    )
    assert (again.id, again.created) == (own.id, False)


@pytest.mark.promise("P18")
def test_start_without_start_permission_raises_not_allowed_error_and_stores_no_rows(
    user: Callable[..., User], advance: Advance
) -> None:
    left = user("lea", "start_run")
    left.is_active = False
    for who in (user("una"), AnonymousUser(), left):
        with pytest.raises(NotAllowedError, match="approval"):
            services.start("approval", {"text": "x"}, by=who)
    assert not Thread.objects.exists()


def test_start_with_unknown_on_pending_value_raises_value_error(advance: Advance) -> None:
    with pytest.raises(ValueError, match="refuse, discard"):
        services.start("approval", {"text": "x"}, on_pending="Discard")
    assert not Thread.objects.exists()


def test_second_start_on_thread_adds_run_and_continues_audit_log(advance: Advance) -> None:
    for number in range(2):
        services.start("steps", {"log": [str(number)]}, thread_id="log")
        advance()
    thread = Thread.objects.get(thread_id="log")
    assert list(thread.runs.values_list("state", flat=True)) == ["succeeded"] * 2
    assert [entry.seq for entry in thread.audit.order_by("seq")] == [1, 2]


def test_start_on_thread_deleted_just_before_the_lock_creates_the_thread_again(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = services.start("steps", {"log": []}, thread_id="log")
    advance()
    lock = leases.lock_thread

    def too_late(**which: Any) -> Thread:
        # The purge may delete the thread until it is locked.
        Thread.objects.filter(runs=old.id).delete()
        return lock(**which)

    monkeypatch.setattr(leases, "lock_thread", too_late)
    new = services.start("steps", {"log": []}, thread_id="log")
    advance()
    assert Run.objects.get().pk == new.id
    assert Run.objects.get().state == "succeeded"


def test_start_with_key_used_just_before_the_lock_returns_the_run_of_the_first_start(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start("approval", {"text": "x"}, thread_id="t1")
    services.cancel(Run.objects.get().pk)
    again: dict[str, Any] = {"input": {"text": "y"}, "thread_id": "t1", "key": "k"}
    first: list[Any] = []

    def late(**key: Any) -> Thread:
        monkeypatch.undo()  # simulates a second click immediately after the first
        first.append(services.start("approval", **again))
        return leases.lock_thread(**key)

    monkeypatch.setattr(leases, "lock_thread", late)
    second = services.start("approval", **again)
    assert (second.id, second.created) == (first[0].id, False)
    assert Run.objects.count() == 2


def test_start_on_thread_with_active_run_raises_run_state_error(
    advance: Advance, unchanged: Callable[[], None]
) -> None:
    services.start("steps", {"log": []}, thread_id="log")
    unchanged()
    with pytest.raises(RunStateError) as caught:
        services.start("steps", {"log": []}, thread_id="log")
    assert caught.value.state == "queued"
    unchanged()


def test_start_on_interrupted_thread_raises_pending_interrupts_error_unless_on_pending_is_discard(
    advance: Advance, unchanged: Callable[[], None]
) -> None:
    first = services.start("approval", {"text": "one"}, thread_id="t")
    advance()
    interrupt = Interrupt.objects.get()
    unchanged()
    with pytest.raises(PendingInterruptsError) as caught:
        services.start("approval", {"text": "two"}, thread_id="t")
    assert caught.value.pending_ids == (str(interrupt.pk),)
    unchanged()

    services.start("approval", {"text": "two"}, thread_id="t", on_pending="discard")
    advance()
    assert Run.objects.get(pk=first.id).state == "cancelled"
    assert dict(Interrupt.objects.values_list("title", "status")) == {
        "Publish one?": "superseded",
        "Publish two?": "pending",
    }
    verbs = AuditEntry.objects.order_by("seq").values_list("verb", flat=True)
    assert list(verbs) == ["start", "discard", "start"]


@pytest.mark.parametrize("state", ["queued", "running", "parked"])
def test_start_with_on_pending_cancel_replaces_active_run_and_revokes_its_lease(
    state: str, advance: Advance
) -> None:
    first = services.start("approval", {"text": "one"}, thread_id="t")
    with pytest.raises(RunStateError):
        services.start("approval", {"text": "two"}, thread_id="t", on_pending="discard")
    Run.objects.update(state=state)
    if state == "running":
        Thread.objects.update(
            epoch=F("epoch") + 1, lease_owner="another", lease_until=Now() + timedelta(hours=1)
        )
    epoch = Thread.objects.get().epoch
    second = services.start("approval", {"text": "two"}, thread_id="t", on_pending="cancel")
    assert Run.objects.get(pk=first.id).state == "cancelled"
    assert (Thread.objects.get().epoch > epoch) == (state == "running")
    advance()
    assert Run.objects.get(pk=second.id).state == "interrupted"
    assert Interrupt.objects.get(status="pending").title == "Publish two?"


def test_error_of_start_on_thread_with_pending_interrupt_lists_only_interrupts_of_that_thread(
    advance: Advance,
) -> None:
    for thread in ("before", "t", "behind"):
        services.start("panel", {"log": []}, thread_id=thread)
    services.start("steps", {"log": []}, thread_id="free")
    advance()
    left, right = Interrupt.objects.filter(thread__thread_id="t").order_by("task_path")
    services.decide(left.pk, "respond", "yes")
    advance()
    with pytest.raises(PendingInterruptsError) as caught:
        services.start("panel", {"log": []}, thread_id="t")
    assert caught.value.pending_ids == (str(right.pk),)
    assert services.start("steps", {"log": []}, thread_id="free").created


@pytest.mark.promise("P18")
def test_pending_interrupts_error_of_start_lists_ids_only_if_the_user_can_view_the_interrupts(
    user: Callable[..., User], advance: Advance
) -> None:
    services.start("approval", {"text": "x"}, thread_id="t")
    advance()
    open_to = []
    for who in (
        user("sam", "start_run", "view_thread"),
        user("lea", "start_run", "view_thread", "view_interrupt"),
    ):
        with pytest.raises(PendingInterruptsError) as caught:
            services.start("approval", {"text": "y"}, thread_id="t", by=who)
        open_to.append(caught.value.pending_ids)
    assert open_to == [(), (str(Interrupt.objects.get().pk),)]


@pytest.mark.promise("P18")
def test_start_with_on_pending_discard_without_cancel_permission_raises_not_allowed_error(
    user: Callable[..., User], advance: Advance, unchanged: Callable[..., None]
) -> None:
    services.start("approval", {"text": "x"}, thread_id="t")
    advance()
    unchanged()
    starter = user("sam", "start_run", "view_thread", "view_interrupt")
    with pytest.raises(NotAllowedError, match="cancel"):
        services.start("approval", {"text": "y"}, thread_id="t", on_pending="discard", by=starter)
    unchanged(refused=1)
    assert AuditEntry.objects.get(verb="refuse").detail["type"] == "discard"


@pytest.mark.parametrize("on_pending", ["refuse", "discard"])
def test_start_on_thread_of_cancelled_run_succeeds(advance: Advance, on_pending: str) -> None:
    first = services.start("approval", {"text": "one"}, thread_id="t")
    advance()
    services.cancel(first.id)
    services.start("approval", {"text": "two"}, thread_id="t", on_pending=on_pending)
    advance()
    asked = Interrupt.objects.order_by("created_at", "status")
    assert {(row.title, row.status) for row in asked} == {
        ("Publish one?", "cancelled"),
        ("Publish two?", "pending"),
    }


def test_start_on_thread_used_by_direct_graph_calls_continues_its_state(advance: Advance) -> None:
    graph = registry.get_graph("steps").graph.with_saver(DjangoSaver())
    place: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"log": []}, place)
    info = services.start("steps", {"log": []}, thread_id="t")
    advance()
    assert Run.objects.get(pk=info.id).state == "succeeded"
    assert graph.get_state(place).values["log"] == [*"abcdeabcde"]


def test_start_on_thread_with_interrupt_of_direct_call_raises_pending_interrupts_error(
    advance: Advance, unchanged: Callable[[], None]
) -> None:
    graph = registry.get_graph("approval").graph.with_saver(DjangoSaver())
    graph.invoke({"text": "x"}, {"configurable": {"thread_id": "t"}})
    unchanged()
    with pytest.raises(PendingInterruptsError):
        services.start("approval", {"text": "y"}, thread_id="t")
    unchanged()


def test_integrity_error_unrelated_to_idempotency_key_is_raised_by_start(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clash(*args: Any) -> None:
        raise IntegrityError("another constraint")

    monkeypatch.setattr(dispatcher, "enqueue", clash)
    for key in (None, "k"):
        with pytest.raises(IntegrityError, match="another constraint"):
            services.start("steps", {"log": []}, key=key)


def test_start_of_different_graph_on_existing_thread_raises_invalid_input_error(
    advance: Advance, unchanged: Callable[[], None]
) -> None:
    services.start("steps", {"log": []}, thread_id="t")
    advance()
    unchanged()
    with pytest.raises(InvalidInputError, match="'steps'"):
        services.start("approval", {"text": "x"}, thread_id="t")
    unchanged()


@pytest.mark.promise("P18")
def test_start_on_hidden_thread_raises_thread_not_found(
    user: Callable[..., User], advance: Advance
) -> None:
    services.start("steps", {"log": []}, thread_id="t")
    advance()
    starter = user("sam", "start_run")
    # The error doesn't name the owner either.
    for graph, given in (("steps", {"log": []}), ("approval", {"text": "x"})):
        with pytest.raises(ThreadNotFound):
            services.start(graph, given, thread_id="t", by=starter)
    assert services.start("steps", {"log": []}, thread_id="mine", by=starter).created


def test_start_passes_only_the_run_id_to_the_dispatcher(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinted: list[object] = []
    monkeypatch.setattr(dispatcher, "enqueue", lambda run, writing: hinted.append(run))
    info = services.start("approval", {"text": "secret"})
    assert hinted == [info.id]
