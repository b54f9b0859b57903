"""Status of an interrupt, and the actions that the user may perform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.timesince import timeuntil
from django.utils.translation import gettext_lazy as _

from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy

#: Text about the consequence of expiry, by expiry action.
EXPIRES: Mapping[str, Any] = {
    "answer": _("then the run resumes with the default response"),
    "cancel": _("then the run is cancelled"),
    "park": _("then the run is parked until someone retries it"),
    "keep": _("then the request stays pending and is marked overdue"),
    "escalate": _("then the request is escalated to another group"),
}


@dataclass(frozen=True)
class InterruptStatus:
    """The status of an interrupt for the page's header, and the actions allowed for the user.

    ``is_overdue`` and ``expires`` are set for pending interrupts only.
    """

    is_pending: bool = False
    claimed_by: str = ""
    is_mine: bool = False
    claimed_for: str = ""
    claimed_until: datetime | None = None
    assigned_to: str = ""
    snoozed_until: datetime | None = None
    is_overdue: bool = False
    expires: Any = ""
    may_take_over: bool = False
    may_assign: bool = False
    may_comment: bool = False

    @property
    def is_claimed(self) -> bool:
        return self.claimed_until is not None


def read_status(item: Interrupt, user: Any) -> InterruptStatus:
    """Return the status of an interrupt for a user who can view it."""
    now, policy = timezone.now(), get_policy()
    until = item.claimed_until
    is_claimed = until is not None and until > now
    asleep = item.snoozed_until is not None and item.snoozed_until > now
    is_pending = item.status == Interrupt.Status.PENDING
    is_late = item.overdue or (item.due_at is not None and item.due_at <= now)
    return InterruptStatus(
        is_pending=is_pending,
        claimed_by=item.claimed_by_label if is_claimed else "",
        is_mine=is_claimed and item.claimed_by_id == user.pk,
        claimed_for=timeuntil(until, now, depth=1) if is_claimed and until is not None else "",
        claimed_until=until if is_claimed else None,
        assigned_to=", ".join(filter(None, (item.assignee_label, item.group_label))),
        snoozed_until=item.snoozed_until if asleep else None,
        is_overdue=is_pending and is_late,
        expires=EXPIRES.get(item.then, "") if is_pending and item.expires_at is not None else "",
        may_take_over=policy.may_take_over(user, item),
        may_assign=policy.may_assign(user, item),
        may_comment=policy.may_comment(user, item),
    )
