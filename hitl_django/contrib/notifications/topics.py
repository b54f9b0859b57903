"""Topics of notifications, and the event for each topic."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.events import EventName
from hitl_django.models import Interrupt


class NotificationTopic(models.TextChoices):
    """A topic of notifications."""

    REQUESTED = "requested", _("A request is addressed to me or one of my groups")
    ASSIGNED = "assigned", _("A request is assigned to me")
    MENTIONED = "mentioned", _("I am mentioned in a comment")
    DUE = "due", _("One of my requests is due soon")
    OVERDUE = "overdue", _("One of my requests is overdue or has expired")


#: Names of deliveries that the sweep stores: before an interrupt is due, and for the digest.
DUE_SOON, DIGEST = "interrupt.due", "digest"
#: Name of deliveries that update the messages about an interrupt in a Slack channel.
UPDATE = "slack.update"
UPDATE_LABELS = {UPDATE: _("update of sent Slack messages")}
LABELS = {DUE_SOON: _("request due soon"), DIGEST: _("daily digest")}

#: Topics by event, for events with exactly one topic.
TOPICS: dict[str, NotificationTopic] = {
    EventName.INTERRUPT_CREATED: NotificationTopic.REQUESTED,
    EventName.INTERRUPT_ASSIGNED: NotificationTopic.ASSIGNED,
    EventName.INTERRUPT_MENTIONED: NotificationTopic.MENTIONED,
    DUE_SOON: NotificationTopic.DUE,
    EventName.INTERRUPT_OVERDUE: NotificationTopic.OVERDUE,
    EventName.INTERRUPT_EXPIRED: NotificationTopic.OVERDUE,
}


def is_escalation(delivery: Delivery, item: Interrupt) -> bool:
    """Return whether a delivery is about an expired interrupt that was escalated to a group."""
    if delivery.event != EventName.INTERRUPT_EXPIRED or item.then != "escalate":
        return False
    # Without this group, the interrupt is only overdue.
    return item.group_label == (item.expiry or {}).get("group")
