"""Claims of webhooks: one worker at a time sends to an endpoint, and each message once at a time.

Both are conditional UPDATEs on the database's clock, and both run out by themselves: what a worker
had claimed that was killed is sent by another, with the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.models.functions import Now

from .models import Delivery, WebhookEndpoint


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that this worker may send until ``deadline``, on the process's own clock."""

    delivery: Delivery
    attempt: int
    deadline: float

    def row(self) -> QuerySet[Delivery]:
        """Select the message as long as nobody else has claimed or changed it."""
        return select_deliveries().filter(
            pk=self.delivery.pk, state=Delivery.State.PENDING, attempts=self.attempt
        )


@retry_on_conflict
def claim_endpoint(endpoint_id: UUID) -> WebhookEndpoint | None:
    """Claim an endpoint for this worker; None where another has it, or it is off or resting."""
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=Now())
    rested = Q(rests_until__isnull=True) | Q(rests_until__lte=Now())
    with transaction.atomic(using=write_alias()):
        # Zero rows: it is gone, off, resting, or another worker's.
        taken = select_endpoints().filter(free, rested, pk=endpoint_id, is_active=True)
        if not taken.update(epoch=F("epoch") + 1, lease_until=Now() + _while()):
            return None
        return select_endpoints().select_related("created_by").get(pk=endpoint_id)


def select_claimed(endpoint: WebhookEndpoint) -> QuerySet[WebhookEndpoint]:
    """Select the endpoint as long as this worker has claimed it."""
    return select_endpoints().filter(pk=endpoint.pk, epoch=endpoint.epoch)


@retry_on_conflict
def release_endpoint(endpoint: WebhookEndpoint, **changes: Any) -> None:
    """End this worker's claim on an endpoint, and changes these columns of it."""
    select_claimed(endpoint).update(lease_until=None, **changes)


@retry_on_conflict
def claim_next(endpoint: WebhookEndpoint) -> Claim | None:
    """Claim the message that has been due longest; None without one, or without the endpoint."""
    # Zero rows: another worker has taken over, or somebody has turned the endpoint off.
    if not select_claimed(endpoint).filter(is_active=True).update(lease_until=Now() + _while()):
        return None
    while found := select_due(endpoint).order_by("due_at", "created_at", "pk").first():
        deadline = monotonic() + hitl.WEBHOOK_TIMEOUT_SECONDS
        # The count of attempts is what makes the claim: of two that saw the same, one UPDATE
        # matches. Zero rows: a worker that should have let go was faster, or it was withdrawn.
        seen = select_due(endpoint).filter(pk=found.pk, attempts=found.attempts)
        if seen.update(attempts=F("attempts") + 1, due_at=Now() + _while()):
            return Claim(found, found.attempts + 1, deadline)
    return None


def select_due(endpoint: WebhookEndpoint) -> QuerySet[Delivery]:
    """Select the messages that are to be sent to the endpoint now."""
    return select_deliveries().filter(
        endpoint=endpoint.pk, state=Delivery.State.PENDING, due_at__lte=Now()
    )


def select_endpoints() -> QuerySet[WebhookEndpoint]:
    """Select the endpoints in the database that they are written to."""
    return WebhookEndpoint.objects.using(write_alias())


def select_deliveries() -> QuerySet[Delivery]:
    """Select the messages in the database that they are written to."""
    return Delivery.objects.using(write_alias())


def _while() -> timedelta:
    # An attempt ends within its timeout, unless its process is frozen; and then it is over when
    # the process wakes up, because its deadline has passed.
    return timedelta(seconds=3 * hitl.WEBHOOK_TIMEOUT_SECONDS)
