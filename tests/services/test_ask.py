"""Requests to a person without a graph of the project."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.serializers.json import DjangoJSONEncoder
from pydantic import BaseModel

import hitl_django
from hitl_django import services, testing
from hitl_django.engine.types import Expiry
from hitl_django.errors import (
    AlreadyDecidedError,
    IdempotencyKeyReusedError,
    InvalidInputError,
    NotAllowedError,
    RunStateError,
    RunTimeoutError,
    UnserializableError,
)
from hitl_django.models import AuditEntry, Interrupt, Run, Thread
from hitl_django.permissions import get_policy

pytestmark = pytest.mark.django_db

PAYLOAD = {"title": "Refund 99.00 EUR?", "order": "R-1"}


class Amount(BaseModel):
    cents: int


class Answer(TypedDict):
    cents: int


def user_with(*codenames: str, name: str = "asker") -> Any:
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return User.objects.get(pk=user.pk)


def test_ask_without_worker_creates_a_pending_interrupt_with_its_options() -> None:
    group = Group.objects.create(name="support")
    rita = user_with("view_interrupt", "decide_interrupt", name="rita")
    asked = hitl_django.ask(
        PAYLOAD, response_schema=Answer, why="Above the limit.", group=group, assignee=rita,
        due=timedelta(hours=2), expires=Expiry(timedelta(days=1), then="cancel"), priority=7,
        quorum=2, metadata={"source": "cron"},
    )  # fmt: skip
    row = Interrupt.objects.select_related("run", "thread").get(pk=asked.id)
    assert (row.status, row.run.state, row.run.pk) == ("pending", "interrupted", asked.run_id)
    assert (row.title, row.payload, row.why) == (PAYLOAD["title"], PAYLOAD, "Above the limit.")
    assert (row.group, row.assignee, row.priority, row.quorum) == (group, rita, 7, 2)
    assert row.response_schema is not None
    assert row.response_schema["required"] == ["cents"]
    assert row.due_at
    assert row.expires_at
    assert row.then == "cancel"
    assert row.thread.metadata == {"source": "cron"}
    assert asked.thread_id == row.thread.thread_id


def test_ask_result_is_an_instance_of_the_response_type_after_the_decision() -> None:
    with testing.inline() as advance:
        asked = hitl_django.ask(PAYLOAD, response_schema=Answer, expires=timedelta(days=1))
        advance()
        with pytest.raises(RunStateError):
            asked.result()
        with pytest.raises(RunTimeoutError):
            asked.wait(0)
        services.decide(asked.id, "respond", {"cents": 5000})
        advance()
    assert asked.wait(0) == {"cents": 5000}


def test_ask_with_the_same_key_returns_the_same_interrupt() -> None:
    first = hitl_django.ask(PAYLOAD, key="refund:1", due=timedelta(hours=1))
    again = hitl_django.ask(PAYLOAD, key="refund:1", due=timedelta(hours=1))
    assert (first.created, again.created) == (True, False)
    assert (first.id, first.run_id) == (again.id, again.run_id)
    with pytest.raises(IdempotencyKeyReusedError):
        hitl_django.ask(PAYLOAD, key="refund:1", due=timedelta(hours=2))
    assert Interrupt.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"group": "nobody"}, InvalidInputError, "group"),
        ({"assignee": "nobody"}, InvalidInputError, "assignee"),
        ({"response_schema": {"type": "number", "minimum": "x"}}, InvalidInputError, "/minimum"),
        (
            {"response_schema": Answer, "expires": Expiry(timedelta(1), "answer", {"cents": "x"})},
            InvalidInputError,
            "expiry response",
        ),
        ({"payload": {"a": [object()]}}, UnserializableError, r"\$\.a\[0\]"),
        ({"payload": "a\x00b"}, UnserializableError, "NUL"),
        ({"quorum": 0}, ValueError, "quorum"),
        ({"expires": timedelta(0)}, ValueError, "positive"),
        ({"quorm": 2}, TypeError, "quorm"),
    ],
)
def test_ask_with_invalid_argument_raises_an_error_and_stores_nothing(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    given: dict[str, Any] = {"payload": PAYLOAD, **arguments}
    with pytest.raises(error, match=text):
        hitl_django.ask(**given)
    assert not Thread.objects.exists()


def test_decide_with_instance_of_the_response_class_stores_its_json() -> None:
    asked = hitl_django.ask(PAYLOAD, response_schema=Amount)
    decided = hitl_django.decide(asked.id, "respond", Amount(cents=5))
    assert decided.value == {"cents": 5}


def test_ask_payload_with_decimals_and_dates_is_stored_as_by_the_json_encoder_of_django() -> None:
    moment = datetime(2026, 1, 31, 9, 5, 0, 123_456, UTC)
    payload = {
        "amount": Decimal("19.90"),
        "order": UUID(int=7),
        "times": [moment, moment.replace(tzinfo=None, microsecond=0), moment.date()],
        "at": (moment.time(), timedelta(days=-2, hours=3, microseconds=5), timedelta(hours=30)),
    }
    asked = hitl_django.ask(payload, key="one")
    row = Interrupt.objects.get(pk=asked.id)
    assert row.payload == json.loads(json.dumps(payload, cls=DjangoJSONEncoder))
    assert row.payload_formats == {
        "/amount": "decimal", "/order": "uuid", "/times/0": "date-time",
        "/times/1": "date-time-local", "/times/2": "date", "/at/0": "time",
    }  # fmt: skip
    assert hitl_django.ask(payload, key="one").id == asked.id


def test_ask_with_assignee_without_decide_permission_raises_invalid_input_error() -> None:
    with pytest.raises(InvalidInputError, match="permission to decide") as caught:
        hitl_django.ask(PAYLOAD, assignee=user_with("view_interrupt"))
    assert caught.value.faults[0][0] == "assignee"
    assert not Thread.objects.exists()


def test_ask_requires_its_own_permission_and_user_sees_only_interrupts_created_by_that_user() -> (
    None
):
    starter, asker = user_with("start_run", name="starter"), user_with("add_interrupt")
    with pytest.raises(NotAllowedError):
        hitl_django.ask(PAYLOAD, by=starter)
    hitl_django.ask(PAYLOAD)
    asked = hitl_django.ask(PAYLOAD, by=asker)
    policy = get_policy()
    assert [row.pk for row in policy.visible_interrupts(asker, Interrupt.objects.all())] == [
        asked.id
    ]
    assert not policy.visible_interrupts(starter, Interrupt.objects.all()).exists()
    assert [row.pk for row in policy.visible_runs(asker, Run.objects.all())] == [asked.run_id]


def test_withdraw_cancels_the_run_once_and_names_the_user_in_the_audit_log() -> None:
    asker = user_with("add_interrupt")
    asked = hitl_django.ask(PAYLOAD, by=asker)
    for _ in range(2):
        services.withdraw(asked.id, by=asker, reason="Solved by phone.")
    assert Interrupt.objects.get(pk=asked.id).status == "cancelled"
    assert Run.objects.get(pk=asked.run_id).state == "cancelled"
    entries = AuditEntry.objects.filter(thread__thread_id=asked.thread_id).order_by("seq")
    assert [(entry.verb, entry.actor) for entry in entries] == [("start", asker), ("cancel", asker)]
    with pytest.raises(RunStateError):
        asked.wait(0)


def test_withdraw_of_decided_interrupt_or_interrupt_of_another_user_raises_error() -> None:
    asker, other = user_with("add_interrupt"), user_with("view_interrupt", name="other")
    asked = hitl_django.ask(PAYLOAD, by=asker)
    with pytest.raises(NotAllowedError):
        services.withdraw(asked.id, by=other)
    services.decide(asked.id, "approve")
    with pytest.raises(AlreadyDecidedError):
        services.withdraw(asked.id, by=asker)
