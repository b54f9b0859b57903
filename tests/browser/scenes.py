"""Data for browser tests: an interrupt of each kind, and the pages of reviewers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from hitl_django import services
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.worker import runner

TEXT = (
    "Dear Dana,\n\nyour parcel left our warehouse two days late, for which we are sorry. It will "
    "arrive on Thursday.\n\nYours,\nThe shop"
)
HUMAN = [
    {
        "action_request": {
            "action": "send_email",
            "args": {"to": "dana@example.com", "body": TEXT},
        },
        "config": {
            "allow_accept": True,
            "allow_edit": True,
            "allow_respond": True,
            "allow_ignore": True,
        },
        "description": "The customer has asked where her parcel is.",
    }
]
REQUEST = {
    "action_requests": [
        {"name": "send_email", "args": {"to": "dana@example.com"}, "description": "Tells her."},
        {"name": "pay", "args": {"cents": 1200, "currency": "EUR"}},
    ],
    "review_configs": [
        {"action_name": "send_email", "allowed_decisions": ["approve", "edit", "respond"]},
        {"action_name": "pay", "allowed_decisions": ["approve", "edit", "reject"]},
    ],
}
ORDER = {
    "title": "Ship order A-20007?",
    "why": "It goes to another address than the last three.",
    "lines": [{"sku": "A-1", "count": 2}, {"sku": "B-7", "count": 1}],
    "express": True,
}

SHIPMENT = {
    "title": "Ship order A-20008?",
    "contact": {"kind": "email", "address": "dana@example.com"},
    "lines": [{"sku": "A-1", "count": 2, "price": 12.5}, {"sku": "B-7", "count": 1}],
}


def ask(graph: str, **state: Any) -> Interrupt:
    run = services.start(graph, state)
    runner.advance(str(run.id))
    return Interrupt.objects.filter(run_id=run.id).order_by("created_at", "index")[0]


def scenes(reviewer: Any, other: Any) -> Iterator[tuple[str, str]]:
    for name, make in SCENES.items():
        item = make(reviewer, other)
        yield name, f"/admin/hitl_django/reviewitem/{item.pk}/change/"


def typed(reviewer: Any, other: Any) -> Interrupt:
    item = ask("typed", customer="Dana K.", amount=120.0)
    Interrupt.objects.filter(pk=item.pk).update(
        due_at=timezone.now() + timedelta(hours=3),
        expires_at=timezone.now() + timedelta(days=2),
        expiry={"seconds": 1, "then": "cancel"},
    )
    group = Group.objects.get_or_create(name="Night shift")[0]
    Thread.objects.filter(pk=item.thread_id).update(
        subject_type=ContentType.objects.get_for_model(Group), subject_id=str(group.pk)
    )
    services.claim(item.pk, by=reviewer)
    services.comment(item.pk, "She called twice.\nSounds honest to me.", by=other)
    return item


def held(reviewer: Any, other: Any) -> Interrupt:
    item = ask("typed", customer="Sam", amount=80.0)
    Interrupt.objects.filter(pk=item.pk).update(due_at=timezone.now() - timedelta(hours=3))
    services.claim(item.pk, by=other)
    return item


def rows(reviewer: Any, other: Any) -> Interrupt:
    return ask("plain", payload=ORDER)


def one_of(reviewer: Any, other: Any) -> Interrupt:
    return ask("order", payload=SHIPMENT)


def human_interrupt(reviewer: Any, other: Any) -> Interrupt:
    return ask("plain", payload=HUMAN)


def several_actions(reviewer: Any, other: Any) -> Interrupt:
    return ask("plain", payload=REQUEST)


def side_by_side(reviewer: Any, other: Any) -> Interrupt:
    return ask("panel")


def for_two(reviewer: Any, other: Any) -> Interrupt:
    payload = {"title": "Publish the letter?", "text": TEXT, "amount": 12}
    item = ask("reviewed", payload=payload, terms={"quorum": 2})
    value = {**payload, "text": TEXT.replace("two days late", "a day late"), "amount": 9}
    services.decide(item.pk, "edit", value, by=other)
    return item


def decided(reviewer: Any, other: Any) -> Interrupt:
    payload = {"title": "Send the letter?", "text": TEXT}
    item = ask("plain", payload=payload)
    value = {**payload, "text": TEXT.replace("two days late", "a day late")}
    services.decide(item.pk, "edit", value, by=other, reason="It was one day.")
    return item


def expired(reviewer: Any, other: Any) -> Interrupt:
    item = ask("typed", customer="Kim", amount=20.0)
    Interrupt.objects.filter(pk=item.pk).update(
        expires_at=timezone.now() - timedelta(hours=1), expiry={"seconds": 1, "then": "cancel"}
    )
    services.expire_due()
    return item


def superseded(reviewer: Any, other: Any) -> Interrupt:
    item = ask("approval", text="the news")
    thread_id = Run.objects.get(pk=item.run_id).thread.thread_id
    newer = services.start(
        "approval", {"text": "newer news"}, thread_id=thread_id, on_pending="discard"
    )
    runner.advance(str(newer.id))
    return item


SCENES: dict[str, Callable[[Any, Any], Interrupt]] = {
    "typed": typed,
    "held": held,
    "rows": rows,
    "one-of": one_of,
    "human-interrupt": human_interrupt,
    "several-actions": several_actions,
    "side-by-side": side_by_side,
    "for-two": for_two,
    "decided": decided,
    "expired": expired,
    "superseded": superseded,
}


def people(password: str) -> tuple[Any, Any]:
    users = get_user_model().objects
    made = [users.create_superuser(name, password=password) for name in ("rita", "ravi")]
    return made[0], made[1]
