"""The rows a user may see; what isn't among them looks as if it didn't exist."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Case, Q, QuerySet, When
from django.shortcuts import get_object_or_404

from hitl_django.db.alias import write_alias
from hitl_django.graph_registry import registry
from hitl_django.models import Delivery, Interrupt, Run, Thread, WebhookEndpoint
from hitl_django.permissions import get_policy, may_start
from hitl_django.services.reviews import queue_filters

# All read from where writes go: a replica that lags would show a question as open that the
# same client has just answered.


def graphs(user: Any) -> list[str]:
    """Return the names of the graphs that ``user`` may start, or sees something of."""
    return [name for name in registry.names() if sees_graph(user, name)]


def sees_graph(user: Any, name: str) -> bool:
    """Say whether a registered graph is one of them."""
    return name in registry.names() and (
        may_start(user, name, "api")
        or runs(user).filter(graph=name).exists()
        or interrupts(user).filter(graph=name).exists()
    )


def threads(user: Any) -> QuerySet[Thread]:
    """Return the threads that ``user`` may see."""
    return get_policy().visible_threads(user, Thread.objects.using(write_alias()))


def thread(user: Any, thread_id: str) -> Thread:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(threads(user), thread_id=thread_id)


def runs(user: Any) -> QuerySet[Run]:
    """Return the runs that ``user`` may see."""
    rows = Run.objects.using(write_alias()).select_related("thread")
    return get_policy().visible_runs(user, rows)


def run(user: Any, run_id: UUID) -> Run:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(runs(user), pk=run_id)


def interrupts(user: Any) -> QuerySet[Interrupt]:
    """Return the questions that ``user`` may see, with what the database's clock says of them."""
    rows = Interrupt.objects.using(write_alias()).select_related("thread")
    seen = get_policy().visible_interrupts(user, rows)
    return seen.annotate(
        is_held=_says(queue_filters.HELD),
        is_snoozed=_says(queue_filters.SNOOZED),
        is_overdue=_says(queue_filters.OVERDUE),
    )


def _says(condition: Q) -> Case:
    return Case(When(queue_filters.PENDING & condition, then=True), default=False)


def interrupt(user: Any, interrupt_id: UUID) -> Interrupt:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(interrupts(user), pk=interrupt_id)


def webhooks(user: Any) -> QuerySet[WebhookEndpoint]:
    """Return the webhooks that ``user`` may see."""
    return get_policy().visible_webhooks(user, WebhookEndpoint.objects.using(write_alias()))


def webhook(user: Any, webhook_id: UUID) -> WebhookEndpoint:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(webhooks(user), pk=webhook_id)


def deliveries(user: Any) -> QuerySet[Delivery]:
    """Return what is sent to the webhooks that ``user`` may see."""
    return Delivery.objects.using(write_alias()).filter(endpoint__in=webhooks(user))


def delivery(user: Any, delivery_id: UUID) -> Delivery:
    """Return one of these messages; Http404 if it isn't."""
    return get_object_or_404(deliveries(user), pk=delivery_id)
