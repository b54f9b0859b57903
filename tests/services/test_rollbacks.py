"""Operations that fail at their last step: no changes of earlier steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F
from django.db.models.functions import Now
from django.test import override_settings

from hitl_django import Expiry, audit, services
from hitl_django.audit import entries
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import NotAllowedError
from hitl_django.graph_registry import compatibility
from hitl_django.models import Checkpoint, Decision, Interrupt, PendingWrite, Run, Thread
from tests import graphs

from .conftest import asked

Advance = Callable[[], int]
DAY = timedelta(days=1)


def hold(interrupt: Interrupt, by: User) -> None:
    Interrupt.objects.filter(pk=interrupt.pk).update(
        claimed_by=by, claimed_by_label=str(by), claimed_until=Now() + DAY
    )


def fork(interrupt: Interrupt, by: User | None) -> None:
    checkpoints = Checkpoint.objects.filter(thread=interrupt.thread, ns="")
    oldest = checkpoints.order_by("checkpoint_id").values_list("checkpoint_id", flat=True)[0]
    services.fork(interrupt.thread.thread_id, oldest, by=by)


def start(interrupt: Interrupt, by: User | None, **terms: Any) -> None:
    services.start("approval", {"text": "y"}, by=by, **terms)


def decide_undoably(interrupt: Interrupt) -> None:
    with override_settings(HITL={**settings.HITL, "UNDO_SECONDS": 60}):
        services.decide(
            interrupt.pk, "approve", by=User.objects.create_user("dan", is_superuser=True)
        )


def fail(interrupt: Interrupt) -> None:
    Run.objects.update(state="failed", finished_at=Now())


#: The preparation, and the operation that fails.
VERBS: dict[
    str, tuple[Callable[[Interrupt], object], Callable[[Interrupt, User | None], object]]
] = {
    "decide": (
        lambda interrupt: None,
        lambda interrupt, by: services.decide(interrupt.pk, "approve", by=by),
    ),
    "decide behind the lock": (
        lambda interrupt: Interrupt.objects.update(version=2),
        lambda interrupt, by: services.decide(interrupt.pk, "approve", by=by),
    ),
    "undo": (decide_undoably, lambda interrupt, by: services.undo(interrupt.pk)),
    "approve": (
        lambda interrupt: Interrupt.objects.update(quorum=2),
        lambda interrupt, by: services.decide(interrupt.pk, "approve", by=by),
    ),
    "take over": (
        lambda interrupt: hold(interrupt, User.objects.create_user("dan")),
        lambda interrupt, by: services.claim(interrupt.pk, by=by, take_over=True),
    ),
    "release": (
        lambda interrupt: hold(interrupt, User.objects.create_user("dan")),
        lambda interrupt, by: services.release(interrupt.pk, by=by),
    ),
    "cancel": (
        lambda interrupt: None,
        lambda interrupt, by: services.cancel(interrupt.run_id, by=by),
    ),
    "retry": (fail, lambda interrupt, by: services.retry(interrupt.run_id, by=by)),
    "fork": (lambda interrupt: None, fork),
    "start": (lambda interrupt: None, start),
    "go on": (
        lambda interrupt: services.cancel(interrupt.run_id),
        lambda interrupt, by: start(interrupt, by, thread_id=interrupt.thread.thread_id),
    ),
    "begin": (
        lambda interrupt: None,
        lambda interrupt, by: start(interrupt, by, thread_id="another"),
    ),
    "discard": (
        lambda interrupt: None,
        lambda interrupt, by: start(
            interrupt, by, thread_id=interrupt.thread.thread_id, on_pending="discard"
        ),
    ),
}


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make every later audit log entry fail after it is written."""
    append = audit.append

    def break_off() -> None:
        raise RuntimeError("no more room")

    def and_fail(batch: WriteBatch, thread: Thread, verb: str, **more: Any) -> None:
        append(batch, thread, verb, **more)
        batch.before_commit(break_off)

    def fill() -> None:
        for room in (audit, entries):
            monkeypatch.setattr(room, "append", and_fail)

    return fill


@pytest.mark.promise("P3")
@pytest.mark.parametrize("who", ["a user", "code"])
@pytest.mark.parametrize("verb", VERBS)
def test_service_call_failing_after_its_audit_entry_is_rolled_back(
    interrupt: Interrupt,
    user: Callable[..., User],
    unchanged: Callable[..., None],
    full: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    who: str,
) -> None:
    # The last use of a graph's structure is stored separately from the run.
    monkeypatch.setattr(compatibility, "store_structure", lambda registered: None)
    by = user(
        "olga", "view_interrupt", "decide_interrupt", "take_over_interrupt", "view_run",
        "view_thread", "operate_run", "start_run",
    )  # fmt: skip
    prepare, act = VERBS[verb]
    prepare(interrupt)
    unchanged()
    full()
    with pytest.raises(RuntimeError, match="no more room"):
        act(interrupt, by if who == "a user" or verb == "take over" else None)
    unchanged()


@pytest.mark.promise("P20")
def test_denied_decision_whose_audit_entry_fails_changes_no_rows(
    interrupt: Interrupt,
    user: Callable[..., User],
    unchanged: Callable[..., None],
    full: Callable[[], None],
) -> None:
    unchanged()
    full()
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=user("olga", "view_interrupt"))
    unchanged()
    assert audit.find_first_fault(Thread.objects.get()) is None


def rows() -> list[Any]:
    left = [*Interrupt.objects.values(), *Run.objects.values(), *Thread.objects.values()]
    for row in left:
        row.pop("retry_at", None)
    return [left, *(model.objects.count() for model in (Decision, PendingWrite, Delivery))]


@pytest.mark.promise("P3")
@pytest.mark.parametrize(
    "terms",
    [
        {"then": "park"},
        {"then": "cancel"},
        {"then": "keep"},
        {"then": "escalate", "group": "elders"},
        {"then": "answer", "answer": {"seats": 8}},
    ],
    ids=lambda terms: terms["then"],
)
def test_expiry_failing_after_its_audit_entry_is_rolled_back_and_retried_later(
    advance: Advance, full: Callable[[], None], terms: dict[str, Any]
) -> None:
    graphs.PATIENCE[:] = [Expiry(DAY, **terms)]
    asked("patient", {"log": []}, advance)
    graphs.PATIENCE.clear()
    Interrupt.objects.update(expires_at=F("expires_at") - DAY)
    before = rows()
    full()
    assert services.expire_due() == 0
    assert rows() == before
    assert Interrupt.objects.filter(retry_at__gt=Now()).count() == 1
