"""Topics: what reviewers are told of, and of which event each comes."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.models import Delivery, Interrupt


class AlertTopic(models.TextChoices):
    """What somebody can be told of."""

    ASKED = "asked", _("A question is asked of me or of a group of mine")
    ASSIGNED = "assigned", _("Somebody assigns a question to me")
    MENTIONED = "mentioned", _("A comment mentions me")
    DUE = "due", _("A question of mine is due soon")
    OVERDUE = "overdue", _("A question of mine is overdue, or nobody answered it in time")


#: The topic of each event that people are told of, where the event itself says it.
TOPICS = {
    Delivery.Event.INTERRUPT_CREATED: AlertTopic.ASKED,
    Delivery.Event.INTERRUPT_ASSIGNED: AlertTopic.ASSIGNED,
    Delivery.Event.INTERRUPT_MENTIONED: AlertTopic.MENTIONED,
    Delivery.Event.INTERRUPT_DUE: AlertTopic.DUE,
    Delivery.Event.INTERRUPT_OVERDUE: AlertTopic.OVERDUE,
    Delivery.Event.INTERRUPT_EXPIRED: AlertTopic.OVERDUE,
}


def is_escalation(delivery: Delivery, item: Interrupt) -> bool:
    """Says whether an event gave a question to another group, because nobody answered in time."""
    if delivery.event != Delivery.Event.INTERRUPT_EXPIRED or item.then != "escalate":
        return False
    # Where there was no such group, it is overdue and no more.
    return item.group_label == (item.expiry or {}).get("group")
