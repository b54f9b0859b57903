"""Lookup of interrupts, and errors for interrupts in an unexpected state."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from hitl_django import leases
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import HitlError
from hitl_django.errors import (
    AlreadyDecidedError,
    ClaimedError,
    InterruptNotFound,
    NoSuchThread,
    RunStateError,
    StaleInterruptError,
)
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import check_id, find_row, select_visible

from ..results import DecisionInfo


def find(interrupt_id: UUID | str, by: Any) -> Interrupt:
    """Return an interrupt with its run and thread.

    Raises:
        InterruptNotFound: if the interrupt doesn't exist or the user may not see it.
    """
    rows = select_visible(rows_with_run(), by).defer(*LARGE_COLUMNS)
    return find_row(rows, InterruptNotFound, pk=interrupt_id)


def lock(interrupt_id: UUID | str, by: Any) -> tuple[Thread, Interrupt]:
    """Lock the thread of an interrupt, and return the thread and the interrupt.

    Until the end of the transaction, no other transaction can change the interrupt.
    """
    return lock_thread(interrupt_id), find(interrupt_id, by)


def lock_thread(interrupt_id: UUID | str) -> Thread:
    """Lock the thread of an interrupt, without a permission check."""
    try:
        return leases.lock_thread(interrupt=parse_id(interrupt_id))
    except NoSuchThread:
        raise InterruptNotFound from None


def rows_with_run() -> QuerySet[Interrupt]:
    """Return all interrupts as a queryset that also loads their runs and threads."""
    return Interrupt.objects.using(write_alias()).select_related("run", "thread")


def refuse_if_closed(interrupt: Interrupt) -> None:
    """Raise AlreadyDecidedError if the interrupt is closed.

    The error contains the decision that closed the interrupt.
    """
    if interrupt.status == Interrupt.Status.PENDING:
        return
    decision = interrupt.closing()
    raise AlreadyDecidedError(
        f"The interrupt is no longer pending: {interrupt.get_status_display()}.",
        status=str(interrupt.status),
        decision=None if decision is None else DecisionInfo.from_row(decision, interrupt.run_id),
    )


def raise_if_claimed(interrupt: Interrupt, thread: Thread, by: Any) -> None:
    """Raise ClaimedError if another user has claimed the interrupt.

    The caller has locked the thread.
    """
    if is_claimed_by_other(interrupt, thread, by):
        raise claimed_error(interrupt)


def is_claimed_by_other(interrupt: Interrupt, thread: Thread, by: Any) -> bool:
    """Return whether another user has claimed the interrupt and the claim has not expired.

    The end of the claim is compared with the time at which ``thread`` was read. If ``by`` is None,
    any user is another user.
    """
    until = interrupt.claimed_until
    if until is None or until <= thread.now:
        return False
    return by is None or interrupt.claimed_by_id != by.pk


def claimed_error(interrupt: Interrupt) -> ClaimedError:
    until = interrupt.claimed_until
    if until is None:  # The claim has ended in the meantime.
        message = "The interrupt was claimed by someone else a moment ago. Try again."
        return ClaimedError(message, claimed_by_label="", until=timezone.now())
    return ClaimedError(
        f"The interrupt is claimed by {interrupt.claimed_by_label} "
        f"until {until:%Y-%m-%d %H:%M:%S}.",
        claimed_by_label=interrupt.claimed_by_label,
        until=until,
    )


def already_decided_error(interrupt: Interrupt) -> AlreadyDecidedError:
    """Return the error for a closed interrupt, with the decision that closed it."""
    # The graph may have rejected an earlier decision, so look only at the version before this one.
    decisions = Decision.objects.using(write_alias()).filter(interrupt=interrupt)
    decision = decisions.filter(version=interrupt.version - 1, effective=True).first()
    message = f"The interrupt is no longer pending: {interrupt.get_status_display()}."
    if interrupt.status == Interrupt.Status.EXPIRED:
        message = "The interrupt has expired. Nothing was saved."
    elif decision is not None:
        message = (
            f"The interrupt has already been decided: {decision.type} by "
            f"{decision.by_label} at {decision.created_at:%Y-%m-%d %H:%M:%S}. Nothing was "
            "saved."
        )
    info = None if decision is None else DecisionInfo.from_row(decision, interrupt.run_id)
    return AlreadyDecidedError(message, status=str(interrupt.status), decision=info)


def run_stopped_error(run: Run) -> RunStateError:
    """Return the error for an interrupt of a run that can't be resumed."""
    return RunStateError(
        f"The run is {run.state}. Retry it before deciding the interrupt.",
        state=str(run.state),
        allowed=Run.ANSWERABLE,
    )


def changed_error(interrupt: Interrupt) -> HitlError:
    """Reload an interrupt, and return the error that describes how it has changed."""
    interrupt.refresh_from_db(write_alias())
    if interrupt.status != Interrupt.Status.PENDING:
        return already_decided_error(interrupt)
    interrupt.run.refresh_from_db(write_alias(), fields=["state"])
    if interrupt.run.state not in Run.ANSWERABLE:
        return run_stopped_error(interrupt.run)
    return StaleInterruptError()


def parse_id(value: UUID | str) -> UUID:
    """Parse the id of an interrupt.

    Raises:
        InterruptNotFound: if the value is not a UUID.
        TypeError: if the value is a row or an AskInfo instead of its id.
    """
    check_id("interrupt", value)
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InterruptNotFound from None
