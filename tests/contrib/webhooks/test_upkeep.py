"""Sweep steps of webhooks: messages to workers, deletion, and unchanged rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.db.models import F
from django.db.models.functions import Now

from hitl_django.contrib.webhooks import maintenance, tasks
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint

from .test_sending import message_to

Hook = Callable[..., WebhookEndpoint]
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def hinted(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    found: list[UUID] = []
    monkeypatch.setattr(tasks, "enqueue_delivery", lambda pk, batch: found.append(pk))
    return found


def waiting(hook: Hook, name: str) -> WebhookEndpoint:
    endpoint = hook(f"https://{name}.example/")
    message_to(endpoint)
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(last_message_at=Now() - MINUTE)
    return endpoint


#: Why nobody needs to be told of an endpoint, and what nevertheless is no reason.
CHANGES: dict[str, tuple[type[WebhookEndpoint | Delivery], dict[str, Any]]] = {
    "is off": (WebhookEndpoint, {"is_active": False}),
    "rests": (WebhookEndpoint, {"paused_until": Now() + MINUTE}),
    "is held": (WebhookEndpoint, {"lease_until": Now() + MINUTE}),
    "was just told of": (WebhookEndpoint, {"last_message_at": Now()}),
    "has a message that is due later": (Delivery, {"due_at": Now() + MINUTE}),
    "has had its message": (Delivery, {"state": "delivered"}),
    "has a message that was given up": (Delivery, {"state": "dead"}),
}
OVER: dict[str, dict[str, Any]] = {
    "has rested": {"paused_until": Now() - MINUTE},
    "was held": {"lease_until": Now() - MINUTE},
}


@pytest.mark.parametrize("why", CHANGES)
def test_sweep_enqueues_only_webhooks_ready_for_delivery(
    hook: Hook, hinted: list[UUID], why: str
) -> None:
    first, other, last = (waiting(hook, name) for name in ("first", "other", "last"))
    model, changes = CHANGES[why]
    which = {"pk": other.pk} if model is WebhookEndpoint else {"endpoint": other.pk}
    model._default_manager.filter(**which).update(**changes)
    hinted.clear()
    before = WebhookEndpoint.objects.values().get(pk=other.pk)
    assert {*maintenance.enqueue_due()} == {*hinted} == {first.pk, last.pk}
    assert WebhookEndpoint.objects.values().get(pk=other.pk) == before
    assert maintenance.enqueue_due() == []


@pytest.mark.parametrize("why", OVER)
def test_sweep_enqueues_webhook_after_its_lease_or_pause_ends(
    hook: Hook, hinted: list[UUID], why: str
) -> None:
    endpoint = waiting(hook, "first")
    WebhookEndpoint.objects.update(**OVER[why])
    assert maintenance.enqueue_due() == [endpoint.pk]


def test_sweep_enqueues_longest_waiting_webhooks_first(
    hook: Hook, hinted: list[UUID], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "SWEEP_BATCH": 1}
    waited = [waiting(hook, name) for name in ("second", "first", "third")]
    for endpoint, minutes in zip(waited, (2, 3, 1), strict=True):
        rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
        rows.update(last_message_at=Now() - minutes * MINUTE)
    found = [maintenance.enqueue_due() for _ in range(4)]
    assert found == [[waited[1].pk], [waited[0].pk], [waited[2].pk], []]


def test_sweep_enqueues_webhook_again_after_failed_enqueue(
    hook: Hook, hinted: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = waiting(hook, "first")
    with monkeypatch.context() as away:
        away.setattr(tasks, "enqueue_delivery", Mock(side_effect=OSError("the queue is away")))
        with pytest.raises(OSError, match="the queue is away"):
            maintenance.enqueue_due()
    assert maintenance.enqueue_due() == [endpoint.pk]


#: The state of a delivery and its endpoint, and whether the delivery is deleted.
OLD: dict[str, tuple[str, dict[str, Any], bool]] = {
    "delivered long ago": ("", {"state": "delivered", "finished_at": Now() - 31 * DAY}, True),
    "delivered": ("", {"state": "delivered", "finished_at": Now() - 29 * DAY}, False),
    "given up long ago": ("", {"state": "dead", "finished_at": Now() - 31 * DAY}, True),
    "due for long": ("", {"due_at": Now() - 31 * DAY}, False),
    "to one that is off, for long": ("off", {"due_at": Now() - 31 * DAY}, True),
    "to one that is off": ("off", {"due_at": Now() - 29 * DAY}, False),
    "delivered to one that is off": (
        "off", {"state": "delivered", "finished_at": Now(), "due_at": Now() - 31 * DAY}, False,
    ),
    "to nobody": ("gone", {"due_at": Now() - 2 * timedelta(hours=1)}, True),
    "to nobody as far as is known": ("gone", {"due_at": Now()}, False),
    "given up, to nobody": (
        "gone", {"state": "dead", "finished_at": Now(), "due_at": Now() - DAY}, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OLD)
def test_sweep_deletes_only_old_finished_or_orphaned_deliveries(hook: Hook, what: str) -> None:
    how, changes, goes = OLD[what]
    # Other rows, which must not change.
    bystanders = [message_to(hook("https://a.example/", is_active=on)) for on in (True, False)]
    endpoint = hook("https://b.example/")
    message = message_to(endpoint)
    after = message_to(hook("https://c.example/"))
    Delivery.objects.filter(pk=message.pk).update(**changes)
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    if how == "off":
        rows.update(is_active=False)
    elif how == "gone":
        rows._raw_delete("default")
    assert maintenance.remove_old() == goes
    left = {*bystanders, after} | (set() if goes else {message})
    assert set(Delivery.objects.all()) == left


def test_sweep_deletes_one_batch_of_old_deliveries_and_one_batch_of_orphaned_deliveries(
    hook: Hook, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "SWEEP_BATCH": 2}
    endpoint, gone = hook("https://a.example/"), hook("https://b.example/")
    for _ in range(3):
        message_to(endpoint)
        message_to(gone)
    Delivery.objects.filter(endpoint=endpoint).update(
        state="delivered", finished_at=Now() - 31 * DAY
    )
    Delivery.objects.filter(endpoint=gone).update(due_at=F("due_at") - DAY)
    WebhookEndpoint.objects.filter(pk=gone.pk)._raw_delete("default")
    assert [maintenance.remove_old() for _ in range(3)] == [4, 2, 0]
