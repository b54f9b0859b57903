"""Events: changes of runs and interrupts that optional apps can subscribe to.

An event is published in the transaction that writes the change. An app subscribes with
``Extension.subscribers``. Without a subscriber, publishing an event has no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.extensions import Event, list_extensions, list_subscribers

if TYPE_CHECKING:
    from hitl_django.db.write_batch import WriteBatch
    from hitl_django.models import Interrupt


class EventName(models.TextChoices):
    """Names of the events of runs and interrupts."""

    INTERRUPT_CREATED = "interrupt.created", _("request created")
    INTERRUPT_DECIDED = "interrupt.decided", _("request decided")
    INTERRUPT_UNDONE = "interrupt.undone", _("decision undone")
    INTERRUPT_EXPIRED = "interrupt.expired", _("request expired")
    INTERRUPT_ASSIGNED = "interrupt.assigned", _("request assigned")
    INTERRUPT_MENTIONED = "interrupt.mentioned", _("user mentioned in a comment")
    INTERRUPT_OVERDUE = "interrupt.overdue", _("request overdue")
    RUN_SUCCEEDED = "run.succeeded", _("run succeeded")
    RUN_FAILED = "run.failed", _("run failed")
    RUN_PARKED = "run.parked", _("run parked")
    RUN_CANCELLED = "run.cancelled", _("run cancelled")


def publish(
    batch: WriteBatch,
    name: str,
    graph: str,
    *,
    group: Any = "",
    is_assigned: Any = True,
    decision: Any = None,
    **data: Any,
) -> None:
    """Call each subscriber with an event. Rows added by subscribers are written with the batch.

    ``group`` is the name of the interrupt's group. ``is_assigned`` is true if the interrupt has a
    group or an assignee. ``decision`` is the row of the event's decision. ``data`` are ids of the
    changed objects, without contents.
    """
    subscribers = list_subscribers()
    if subscribers:
        event = Event(str(name), graph, {"graph": graph, **data}, group, is_assigned, decision)
        for subscribe in subscribers:
            subscribe(batch, event)


def publish_about(batch: WriteBatch, name: str, interrupt: Interrupt, **data: Any) -> None:
    """Publish an event about an interrupt, with the interrupt's id, graph and group."""
    about = {"interrupt_id": interrupt.pk, **data}
    publish(batch, name, interrupt.graph, group=interrupt.group_label, **about)


def list_labels() -> dict[str, Any]:
    """Return the labels of the events of this app and of all extensions, by event name."""
    labels: dict[str, Any] = dict(EventName.choices)
    for extension in list_extensions():
        labels = {**extension.events, **labels}
    return labels
