"""Leases of workers on endpoints, independent of other endpoints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from hitl_django.contrib.webhooks import claims
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint

from .test_sending import message_to

Hook = Callable[..., WebhookEndpoint]


def test_webhook_disabled_after_its_claim_gets_no_delivery(hook: Hook) -> None:
    endpoint = hook("https://example.com/one")
    message_to(endpoint)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    WebhookEndpoint.objects.update(is_active=False)
    assert claims.claim_next(held) is None
    assert Delivery.objects.get().attempts == 0


def test_webhook_release_by_a_worker_preserves_leases_of_other_webhooks(hook: Hook) -> None:
    held = [claims.claim_endpoint(hook(f"https://example.com/{number}").pk) for number in range(3)]
    assert {endpoint.epoch for endpoint in held if endpoint} == {1}
    assert held[1] is not None
    claims.release_endpoint(held[1], failures=7)
    free = WebhookEndpoint.objects.filter(lease_until=None)
    assert [(endpoint.pk, endpoint.failures) for endpoint in free] == [(held[1].pk, 7)]


def test_claimed_webhook_gets_no_deliveries_of_other_webhooks(hook: Hook) -> None:
    endpoints = [hook(f"https://example.com/{number}") for number in range(3)]
    messages = [message_to(endpoint) for endpoint in endpoints]
    Delivery.objects.update(due_at=Now())
    held = claims.claim_endpoint(endpoints[1].pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    assert claim.delivery.pk == messages[1].pk
    assert claims.claim_next(held) is None


def test_webhook_whose_row_cannot_be_read_is_not_claimed(hook: Hook) -> None:
    """The values that are read must be those of the claim, above all the epoch."""
    endpoint = hook("https://example.com/one")

    def lost(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT"):
            raise OSError("the line is cut")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(lost), pytest.raises(OSError, match="the line is cut"):
        claims.claim_endpoint(endpoint.pk)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    assert held.epoch == 1


def test_webhook_deliveries_are_claimed_by_due_time_oldest_first(hook: Hook) -> None:
    endpoint = hook("https://example.com/one")
    messages = [message_to(endpoint) for _ in range(5)]
    due = {messages[0].pk: 1, messages[1].pk: 3, messages[2].pk: 2, messages[3].pk: 3}
    Delivery.objects.update(created_at=Now())
    for pk, hours in due.items():
        row = Delivery.objects.filter(pk=pk)
        row.update(due_at=messages[0].due_at - timedelta(hours=hours))
    # Of two webhooks with the same due time, the one that was created first.
    Delivery.objects.filter(pk=messages[3].pk).update(
        created_at=messages[0].created_at - timedelta(hours=1)
    )
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    sent = []
    while (claim := claims.claim_next(held)) is not None:
        sent.append(claim.delivery.pk)
    assert sent == [messages[at].pk for at in (3, 1, 2, 0, 4)]


@pytest.mark.parametrize(
    "changes", [{"due_at": Now() + timedelta(minutes=1)}, {"state": "delivered"}, {"state": "dead"}]
)
def test_webhook_delivery_that_is_finished_or_not_yet_due_is_not_claimed(
    hook: Hook, changes: dict[str, Any]
) -> None:
    endpoint = hook("https://example.com/one")
    message_to(endpoint)
    Delivery.objects.update(**changes)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    assert claims.claim_next(held) is None
    assert Delivery.objects.get().attempts == 0
