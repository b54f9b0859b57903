"""Sweep steps of webhooks, which enqueue due deliveries and delete old ones."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models.functions import Now

from . import claims, tasks
from .models import Delivery

#: Age from which a delivery is checked for a missing endpoint.
LEFT_OVER = timedelta(hours=1)


@retry_on_conflict
def enqueue_due() -> list[UUID]:
    """Enqueue a message for each endpoint with due deliveries, and return the endpoints' ids.

    Paused and leased endpoints are skipped. An endpoint gets at most one message per SWEEP_SECONDS,
    so the queue doesn't grow while no worker runs.
    """
    using = write_alias()
    due = claims.select_deliveries().filter(
        endpoint=OuterRef("pk"), state=Delivery.State.PENDING, due_at__lte=Now()
    )
    waiting = claims.select_endpoints().filter(
        Q(lease_until__isnull=True) | Q(lease_until__lte=Now()),
        Q(paused_until__isnull=True) | Q(paused_until__lte=Now()),
        Exists(due),
        is_active=True,
        last_message_at__lt=Now() - timedelta(seconds=hitl.SWEEP_SECONDS),
    )
    found = list(
        waiting.order_by("last_message_at").values_list("pk", flat=True)[: hitl.SWEEP_BATCH]
    )
    if not found:
        return found
    with transaction.atomic(using=using):
        claims.select_endpoints().filter(pk__in=found).update(last_message_at=Now())
        batch = WriteBatch(using)
        for endpoint in found:
            tasks.enqueue_delivery(endpoint, batch)
        batch.run()
    return found


def remove_old() -> int:
    """Delete one batch of deliveries that finished long ago or have no endpoint.

    Return the number of deleted deliveries.
    """
    before = Now() - timedelta(days=hitl.DELIVERY_DAYS)
    finished = claims.select_deliveries().filter(finished_at__lt=before)
    # A process that didn't know yet that the endpoint was deleted stored the delivery.
    there = claims.select_endpoints().filter(pk=OuterRef("endpoint"))
    waiting = claims.select_deliveries().filter(
        state=Delivery.State.PENDING, due_at__lt=Now() - LEFT_OVER
    )
    wanted = there.filter(is_active=True)
    unwanted = waiting.filter(~Exists(there) | Q(~Exists(wanted), due_at__lt=before))
    removed = 0
    for rows in (finished, unwanted):
        found = list(rows.values_list("pk", flat=True)[: hitl.SWEEP_BATCH])
        if found:
            removed += claims.select_deliveries().filter(pk__in=found).delete()[0]
    return removed
