"""Who sends: one worker at a time for an endpoint, and each message once at a time.

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
from django.db.models.functions import Now

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.models import Delivery, WebhookEndpoint


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that is ours to send until ``deadline``, on this process's own clock."""

    delivery: Delivery
    attempt: int
    deadline: float

    def row(self) -> QuerySet[Delivery]:
        """Finds the message as long as nobody else has claimed or changed it."""
        return deliveries().filter(
            pk=self.delivery.pk, state=Delivery.State.PENDING, attempts=self.attempt
        )


@retry_on_conflict
def hold(endpoint_id: UUID) -> WebhookEndpoint | None:
    """Takes an endpoint for this worker; None where another has it, or it is to be left alone."""
    free = Q(held_until__isnull=True) | Q(held_until__lte=Now())
    rested = Q(rests_until__isnull=True) | Q(rests_until__lte=Now())
    with transaction.atomic(using=write_alias()):
        # Zero rows: it is gone, off, resting, or another worker's.
        taken = endpoints().filter(free, rested, pk=endpoint_id, is_active=True)
        if not taken.update(epoch=F("epoch") + 1, held_until=Now() + _while()):
            return None
        return endpoints().select_related("created_by").get(pk=endpoint_id)


def ours(endpoint: WebhookEndpoint) -> QuerySet[WebhookEndpoint]:
    """Finds the endpoint as long as this worker has it."""
    return endpoints().filter(pk=endpoint.pk, epoch=endpoint.epoch)


@retry_on_conflict
def let_go(endpoint: WebhookEndpoint, **changes: Any) -> None:
    """Gives the endpoint back."""
    ours(endpoint).update(held_until=None, **changes)


@retry_on_conflict
def claim_next(endpoint: WebhookEndpoint) -> Claim | None:
    """Claims the message that has been due longest; None where none is, or it isn't ours to do."""
    # Zero rows: another worker has taken over, or somebody has turned the endpoint off.
    if not ours(endpoint).filter(is_active=True).update(held_until=Now() + _while()):
        return None
    while (found := due(endpoint).order_by("due_at", "created_at", "pk").first()) is not None:
        deadline = monotonic() + hitl.WEBHOOK_TIMEOUT_SECONDS
        # The count of attempts is what makes the claim: of two that saw the same, one UPDATE
        # matches. Zero rows: a worker that should have let go was faster, or it was withdrawn.
        seen = due(endpoint).filter(pk=found.pk, attempts=found.attempts)
        if seen.update(attempts=F("attempts") + 1, due_at=Now() + _while()):
            return Claim(found, found.attempts + 1, deadline)
    return None


def due(endpoint: WebhookEndpoint) -> QuerySet[Delivery]:
    """Returns what is to be sent to the endpoint now."""
    return deliveries().filter(
        endpoint=endpoint.pk, state=Delivery.State.PENDING, due_at__lte=Now()
    )


def endpoints() -> QuerySet[WebhookEndpoint]:
    """Returns the endpoints, from where they are written."""
    return WebhookEndpoint.objects.using(write_alias())


def deliveries() -> QuerySet[Delivery]:
    """Returns the messages, from where they are written."""
    return Delivery.objects.using(write_alias())


def _while() -> timedelta:
    # An attempt ends within its timeout, unless its process is frozen; and then it is over when
    # the process wakes up, because its deadline has passed.
    return timedelta(seconds=3 * hitl.WEBHOOK_TIMEOUT_SECONDS)
