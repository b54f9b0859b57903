"""Who sends: what a worker has of one endpoint it has of no other."""

from __future__ import annotations

from collections.abc import Callable

from django.db.models.functions import Now

from hitl_django.models import Delivery, WebhookEndpoint
from hitl_django.webhooks import claims

from .test_sending import message_to

Hook = Callable[..., WebhookEndpoint]


def test_an_endpoint_that_is_turned_off_is_sent_nothing_more(hook: Hook) -> None:
    endpoint = hook("https://example.com/one")
    message_to(endpoint)
    held = claims.hold(endpoint.pk)
    assert held is not None
    WebhookEndpoint.objects.update(is_active=False)
    assert claims.claim_next(held) is None
    assert Delivery.objects.get().attempts == 0


def test_who_gives_an_endpoint_back_keeps_the_others(hook: Hook) -> None:
    held = [claims.hold(hook(f"https://example.com/{number}").pk) for number in range(3)]
    assert {endpoint.epoch for endpoint in held if endpoint} == {1}
    assert held[1] is not None
    claims.let_go(held[1], failures=7)
    free = WebhookEndpoint.objects.filter(held_until=None)
    assert [(endpoint.pk, endpoint.failures) for endpoint in free] == [(held[1].pk, 7)]


def test_an_endpoint_gets_its_own_messages_only(hook: Hook) -> None:
    endpoints = [hook(f"https://example.com/{number}") for number in range(3)]
    messages = [message_to(endpoint) for endpoint in endpoints]
    Delivery.objects.update(due_at=Now())
    held = claims.hold(endpoints[1].pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    assert claim.delivery.pk == messages[1].pk
    assert claims.claim_next(held) is None
