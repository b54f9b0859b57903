"""Assignment and snoozing of interrupts."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q

from hitl_django import audit, events
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import InvalidInputError
from hitl_django.events import EventName
from hitl_django.models import Interrupt
from hitl_django.models.review import get_cleared_claim
from hitl_django.permissions import get_policy, refuse_unless_may, select_visible

from .. import denied_log
from . import lookup, queue_filters


@retry_on_conflict
def assign(
    interrupt_id: UUID | str,
    *,
    to: Any = None,
    group: Group | None = None,
    by: Any = None,
    via: str = "code",
) -> None:
    """Assign a pending interrupt to a user, to a group, to both, or to nobody.

    ``claim_next`` returns an assigned interrupt only to the assignee or to members of the group.

    Raises:
        InvalidInputError: if the user ``to`` may not see and decide the interrupt.
        NotAllowedError: if ``by`` may not assign the interrupt.
        AlreadyDecidedError: if the interrupt is not pending.
    """
    if group is not None and not isinstance(group, Group):
        raise TypeError(f"group must be a Group, not {group!r}.")
    refusal = denied_log.record_denial("assign", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread, interrupt = lookup.lock(interrupt_id, by)
        message = "You don't have permission to assign this interrupt."
        refuse_unless_may(by, get_policy().may_assign, interrupt, message)
        lookup.refuse_if_closed(interrupt)
        refuse_unless_may_decide(interrupt, to, "to")
        names = {
            "assignee_label": "" if to is None else audit.label_user(to),
            "group_label": "" if group is None else group.name,
        }
        _row(interrupt).update(
            assignee=None if to is None else to.pk,
            group=None if group is None else group.pk,
            **names,
        )
        detail = {"to": names["assignee_label"], "group": names["group_label"]}
        subject = str(interrupt.pk)
        audit.append_alone(thread, "assign", by=by, via=via, subject=subject, detail=detail)
        interrupt.group_label = names["group_label"]
        batch = WriteBatch(write_alias())
        events.publish_about(
            batch,
            EventName.INTERRUPT_ASSIGNED,
            interrupt,
            to="" if to is None else to.pk,
            by="" if by is None else by.pk,
        )
        batch.run()


@retry_on_conflict
def snooze(
    interrupt_id: UUID | str, *, until: datetime | None, by: Any = None, via: str = "code"
) -> None:
    """Hide a pending interrupt from everyone's review queue until a time.

    With ``until=None``, the interrupt is shown again. The user's own claim ends. The due time and
    the expiry don't change.

    Raises:
        ClaimedError: if another user has claimed the interrupt.
        InvalidInputError: if the time is not in the future.
        NotAllowedError: if ``by`` may not decide the interrupt.
        AlreadyDecidedError: if the interrupt is not pending.
    """
    refusal = denied_log.record_denial("snooze", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread, interrupt = lookup.lock(interrupt_id, by)
        message = "You don't have permission to snooze this interrupt."
        refuse_unless_may(by, get_policy().may_decide, interrupt, message)
        lookup.refuse_if_closed(interrupt)
        if by is not None:
            lookup.raise_if_claimed(interrupt, thread, by)
        until = _moment(until, thread.now)
        ended = {} if until is None else get_cleared_claim()
        unclaimed_by_others = Q() if by is None else queue_filters.UNCLAIMED | Q(claimed_by=by.pk)
        # Zero rows: someone has claimed the interrupt since it was read, because a claim doesn't
        # lock the thread.
        if not _row(interrupt).filter(unclaimed_by_others).update(snoozed_until=until, **ended):
            raise lookup.claimed_error(lookup.find(interrupt.pk, by))
        detail = {"until": None if until is None else until.isoformat()}
        subject = str(interrupt.pk)
        audit.append_alone(thread, "snooze", by=by, via=via, subject=subject, detail=detail)


def _moment(until: datetime | None, now: datetime) -> datetime | None:
    if until is None:
        return None
    until = to_stored(until)
    if until <= now:
        raise InvalidInputError(
            "The snooze time must be in the future.", [("until", "must be in the future")]
        )
    return until


def refuse_unless_may_decide(interrupt: Interrupt, to: Any, name: str) -> None:
    """Raise InvalidInputError if the user ``to`` may not see and decide the interrupt.

    ``name`` is the name of the argument that contained the user, for the error message.
    """
    if to is None:
        return
    seen = select_visible(_row(interrupt), to).exists()
    if not seen or not get_policy().may_decide(to, interrupt):
        raise InvalidInputError(
            "The user can't be assigned: they don't have permission to decide this interrupt.",
            [(name, "can't decide this interrupt")],
        )


def _row(interrupt: Interrupt) -> Any:
    return Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
