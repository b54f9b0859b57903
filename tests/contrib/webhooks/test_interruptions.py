"""Workers killed while sending: no delivery is lost or sent with two ids."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from hitl_django.contrib.webhooks import delivery, maintenance
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.delivery import deliver
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from tests.chaos import commits

from .receiver import Receiver, answering

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]


def end_claims() -> None:
    past = Now() - timedelta(hours=1)  # so that the deliveries keep their order
    WebhookEndpoint.objects.filter(lease_until__gt=Now()).update(lease_until=past)
    claimed = Delivery.objects.filter(state="pending", status=None, due_at__gt=Now())
    claimed.update(due_at=past)


@pytest.mark.parametrize(("status", "count"), [(204, 1), (404, 2), (410, 2), (503, 2)])
def test_webhook_delivery_repeated_after_worker_kill_at_any_commit_has_the_id_of_the_first_attempt(
    hook: Callable[..., WebhookEndpoint], receive: Callable[..., Receiver], status: int, count: int
) -> None:
    receiver = receive(answering(status))
    endpoint = hook(receiver)
    for _ in range(count):
        webhook_services.send_test_event(endpoint.pk)
    # Simulates two failures before a success.
    WebhookEndpoint.objects.update(failures=2)
    commits.assert_same_after_kills(
        lambda: deliver(str(endpoint.pk)),
        wait=end_claims,
        effects=lambda: [each.headers["webhook-id"] for each in receiver.all()],
    )


def test_webhook_deliveries_left_by_a_killed_worker_are_sent_after_the_sweep(
    hook: Callable[..., WebhookEndpoint],
    receive: Callable[..., Receiver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "SLICE", 0.0)
    receiver = receive(answering(204))
    endpoint = hook(receiver)
    for _ in range(2):
        webhook_services.send_test_event(endpoint.pk)

    def deliver_due() -> None:
        # The sweep finds an endpoint by its due time, even if the message to a worker was lost.
        WebhookEndpoint.objects.update(last_message_at=Now() - timedelta(hours=1))
        while maintenance.enqueue_due():
            deliver(str(endpoint.pk))
            WebhookEndpoint.objects.update(last_message_at=Now() - timedelta(hours=1))

    commits.assert_same_after_kills(
        deliver_due,
        wait=end_claims,
        effects=lambda: [each.headers["webhook-id"] for each in receiver.all()],
    )
