"""A worker's lease on an endpoint, and its claim on each delivery.

Lease and claim are conditional UPDATEs with the database's clock, and both expire. If a worker is
killed, another worker sends the deliveries again, with the same ids.
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
    """A delivery that this worker may send until ``deadline``.

    The deadline is a time on the monotonic clock of the process.
    """

    delivery: Delivery
    attempt: int
    deadline: float

    def row(self) -> QuerySet[Delivery]:
        """Return a queryset with the claimed delivery.

        The queryset is empty if another worker has claimed or changed the delivery in the meantime.
        """
        return select_deliveries().filter(
            pk=self.delivery.pk, state=Delivery.State.PENDING, attempts=self.attempt
        )


@retry_on_conflict
def claim_endpoint(endpoint_id: UUID) -> WebhookEndpoint | None:
    """Lease an endpoint for this worker.

    Return None if the endpoint is leased, paused or inactive.
    """
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=Now())
    rested = Q(paused_until__isnull=True) | Q(paused_until__lte=Now())
    with transaction.atomic(using=write_alias()):
        # Zero rows: the endpoint was deleted, or it is inactive, paused, or leased by another
        # worker.
        taken = select_endpoints().filter(free, rested, pk=endpoint_id, is_active=True)
        if not taken.update(epoch=F("epoch") + 1, lease_until=Now() + _while()):
            return None
        return select_endpoints().select_related("created_by").get(pk=endpoint_id)


def select_claimed(endpoint: WebhookEndpoint) -> QuerySet[WebhookEndpoint]:
    """Return a queryset with the endpoint.

    The queryset is empty if this worker has lost the lease.
    """
    return select_endpoints().filter(pk=endpoint.pk, epoch=endpoint.epoch)


@retry_on_conflict
def release_endpoint(endpoint: WebhookEndpoint, **changes: Any) -> None:
    """End this worker's lease on an endpoint. ``changes`` are other columns to update."""
    select_claimed(endpoint).update(lease_until=None, **changes)


@retry_on_conflict
def claim_next(endpoint: WebhookEndpoint) -> Claim | None:
    """Claim the delivery that has been due longest.

    Return None if no delivery is due, or if the lease on the endpoint was lost.
    """
    # Zero rows: another worker has leased the endpoint, or the endpoint was deactivated.
    if not select_claimed(endpoint).filter(is_active=True).update(lease_until=Now() + _while()):
        return None
    while found := select_due(endpoint).order_by("due_at", "created_at", "pk").first():
        deadline = monotonic() + hitl.WEBHOOK_TIMEOUT_SECONDS
        # The number of attempts makes the claim: if two workers read the same number, only one
        # UPDATE matches. Zero rows: another worker was faster, or the delivery was withdrawn.
        seen = select_due(endpoint).filter(pk=found.pk, attempts=found.attempts)
        if seen.update(attempts=F("attempts") + 1, due_at=Now() + _while()):
            return Claim(found, found.attempts + 1, deadline)
    return None


def select_due(endpoint: WebhookEndpoint) -> QuerySet[Delivery]:
    """Return the deliveries of the endpoint that are due."""
    return select_deliveries().filter(
        endpoint=endpoint.pk, state=Delivery.State.PENDING, due_at__lte=Now()
    )


def select_endpoints() -> QuerySet[WebhookEndpoint]:
    return WebhookEndpoint.objects.using(write_alias())


def select_deliveries() -> QuerySet[Delivery]:
    return Delivery.objects.using(write_alias())


def _while() -> timedelta:
    # An attempt ends within its timeout, unless its process is frozen. A frozen process stops when
    # it continues, because its deadline has passed.
    return timedelta(seconds=3 * hitl.WEBHOOK_TIMEOUT_SECONDS)
