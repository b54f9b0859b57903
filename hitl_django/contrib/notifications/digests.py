"""The daily digest: a user's pending interrupts, and comments that mention the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from hitl_django.conf import hitl
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.db.alias import write_alias
from hitl_django.events import EventName
from hitl_django.models import Interrupt
from hitl_django.models.functions import Now
from hitl_django.models.review import QUEUE_COLUMNS, queue_order
from hitl_django.permissions import select_visible
from hitl_django.services.reviews import queue_filters

from .models import NotificationPreferences
from .topics import NotificationTopic

#: Maximum number of titles in a digest. Further requests are only counted.
MOST = 20
#: Maximum number of mentions that are searched, newest first.
MENTIONS = 1000

DAILY = NotificationPreferences.When.DAILY


@dataclass(frozen=True, slots=True)
class Digest:
    """The content of a digest: pending interrupts, and interrupts in which the user is mentioned.

    ``waiting`` are the first pending interrupts, and ``count`` is the number of all pending
    interrupts.
    """

    waiting: Sequence[Interrupt]
    count: int
    overdue: int
    mentions: Sequence[Interrupt]

    @property
    def more(self) -> int:
        return self.count - len(self.waiting)


def list_readers() -> Sequence[Any]:
    """Return the primary keys of the users who get the daily digest for at least one topic."""
    daily = Q()
    for topic in NotificationTopic.values:
        daily |= Q(**{topic: DAILY})
        if hitl.NOTIFICATION_DEFAULT == DAILY:
            daily |= Q(**{topic: ""})
    rows = NotificationPreferences.objects.using(write_alias()).filter(daily)
    return list(rows.values_list("pk", flat=True))


def build_digest(user: Any, wanted: NotificationPreferences, delivery: Delivery) -> Digest | None:
    """Return a user's digest, or None if the digest is empty.

    ``delivery`` is the outbox row of the digest. Its data contains the start and the end of a
    period. Only comments of this period are searched for mentions.
    """
    seen = select_visible(Interrupt.objects.using(write_alias()), user)
    mine = seen.none()
    if any(
        wanted.get(topic) == DAILY
        for topic in NotificationTopic.values
        if topic != NotificationTopic.MENTIONED
    ):
        mine = seen.filter(queue_filters.PENDING, queue_filters.AWAKE, _is_for(user))
    mentions = (
        list(_find_mentions(seen, user, delivery))
        if (wanted.get(NotificationTopic.MENTIONED) == DAILY)
        else []
    )
    waiting = list(mine.order_by(*queue_order()).only(*QUEUE_COLUMNS)[:MOST])
    if not waiting and not mentions:
        return None
    count = len(waiting) if len(waiting) < MOST else mine.count()
    return Digest(waiting, count, mine.filter(due_at__lte=Now()).count(), mentions)


def _is_for(user: Any) -> Q:
    groups = user.groups.order_by().values("pk")
    return Q(assignee=user.pk) | Q(assignee__isnull=True, group__in=groups)


def _find_mentions(seen: QuerySet[Interrupt], user: Any, delivery: Delivery) -> QuerySet[Interrupt]:
    """Return the interrupts in ``seen`` with comments that mention the user.

    Only comments from the period of the digest are considered. The row ``delivery`` contains the
    start and the end of this period.
    """
    after, until = (datetime.fromisoformat(delivery.data[name]) for name in ("after", "until"))
    told = Delivery.objects.using(write_alias()).filter(
        endpoint=delivery.endpoint_id,
        event=EventName.INTERRUPT_MENTIONED,
        created_at__gt=after,
        created_at__lte=until,
    )
    found = {
        data["interrupt_id"]
        for data in told.order_by("-created_at").values_list("data", flat=True)[:MENTIONS]
        if str(user.pk) in data.get("users", "").split() and data.get("by") != str(user.pk)
    }
    return seen.filter(pk__in=found).order_by("-created_at", "-id").only(*QUEUE_COLUMNS)[:MOST]
