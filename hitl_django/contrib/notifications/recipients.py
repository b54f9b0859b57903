"""Recipients of an event.

Recipients are looked up when a notification is sent, not in the transaction of the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.db.alias import write_alias
from hitl_django.models import AuditEntry, Interrupt
from hitl_django.permissions import select_visible

from .topics import TOPICS, NotificationTopic


@dataclass(frozen=True, slots=True)
class Recipient:
    """A possible recipient with the chosen frequency of notifications.

    An empty frequency means the default frequency.
    """

    user_id: Any
    when: str


def find_topic(delivery: Delivery, item: Interrupt) -> NotificationTopic | None:
    """Return the topic of an event, or None if a notification is no longer necessary."""
    topic = TOPICS[delivery.event]
    if topic == NotificationTopic.MENTIONED:
        return topic
    if item.status != Interrupt.Status.PENDING:
        return None
    if topic == NotificationTopic.REQUESTED and _was_assigned_since(delivery, item):
        return None  # A separate event notifies about this.
    if topic == NotificationTopic.ASSIGNED and not delivery.data.get("to"):
        return NotificationTopic.REQUESTED  # The request is assigned to a group.
    return topic


def list_recipients(
    delivery: Delivery, item: Interrupt, topic: NotificationTopic
) -> Sequence[Recipient]:
    """Return the possible recipients of an event, without the user who caused the event."""
    rows = select_reachable().filter(_select(delivery, item, topic)).distinct()
    if by := delivery.data.get("by"):
        rows = rows.exclude(pk=by)
    chosen = rows.annotate(when=F(f"hitl_notifications__{topic}")).values_list("pk", "when")
    return [Recipient(pk, when or "") for pk, when in chosen]


def select_reachable() -> QuerySet[Any]:
    """Return the active users with an email address."""
    users = get_user_model()
    rows = users._default_manager.using(write_alias()).filter(is_active=True)
    return rows.filter(**{f"{users.get_email_field_name()}__gt": ""})


def find_item(delivery: Delivery, user: Any = None) -> Interrupt | None:
    """Return the interrupt of a delivery, or None if it doesn't exist or the user may not view it.

    Without a user, permissions are not checked.
    """
    rows = Interrupt.objects.using(write_alias()).select_related("thread", "run")
    return select_visible(rows, user).filter(pk=delivery.data["interrupt_id"]).first()


def is_theirs(item: Interrupt, user: Any, topic: str) -> bool:
    """Return whether a notification about the interrupt is still useful to the user.

    A notification of a mention is always useful. Other notifications are useful only while the
    interrupt is pending. For the topic "assigned", the interrupt must also still be assigned to the
    user.
    """
    if topic == NotificationTopic.MENTIONED:
        return True
    if item.status != Interrupt.Status.PENDING:
        return False
    return topic != NotificationTopic.ASSIGNED or item.assignee_id == user.pk


def _was_assigned_since(delivery: Delivery, item: Interrupt) -> bool:
    record = AuditEntry.objects.using(write_alias()).filter(thread=item.thread_id, verb="assign")
    return record.filter(subject=str(item.pk), at__gte=delivery.created_at).exists()


def _select(delivery: Delivery, item: Interrupt, topic: NotificationTopic) -> Q:
    if topic == NotificationTopic.MENTIONED:
        return Q(pk__in=delivery.data.get("users", "").split())
    if topic == NotificationTopic.ASSIGNED:
        return Q(pk=delivery.data["to"])
    if item.assignee_id is not None:
        return Q(pk=item.assignee_id)
    is_claimed = item.claimed_until is not None and item.claimed_until > timezone.now()
    if (
        topic in (NotificationTopic.DUE, NotificationTopic.OVERDUE)
        and is_claimed
        and item.claimed_by_id is not None
    ):
        return Q(pk=item.claimed_by_id)
    return Q(groups=item.group_id) if item.group_id is not None else Q(pk__in=[])
