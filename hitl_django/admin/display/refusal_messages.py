"""Messages about decisions that could not be stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone
from django.utils.formats import localize, time_format
from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.errors import (
    AlreadyApprovedError,
    ClaimedError,
    ClaimRequiredError,
    NotAllowedError,
    RunStateError,
    SelfApprovalError,
    StaleInterruptError,
)
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import format_moment, to_local
from hitl_django.models import Decision, Interrupt
from hitl_django.services import WorkerOutage


@dataclass(frozen=True)
class Notice:
    """A heading with sentences below it.

    ``tone`` determines the color.
    """

    headline: Any
    lines: tuple[Any, ...] = ()
    tone: str = "warning"


NOTHING_SENT = _("Your input was not submitted.")
NOT_RECORDED = _("Your latest submission was not saved.")

CHANGED = _(
    "The node asked something different when the run resumed. This response may have "
    "been used for the new request."
)

CLOSED = {
    Interrupt.Status.EXPIRED: Notice(
        _("This request has expired"), (_("Nobody decided the request in time."),)
    ),
    Interrupt.Status.SUPERSEDED: Notice(
        _("This request was superseded"),
        (_("The run continued without a response, or a newer run replaced it."),),
    ),
    Interrupt.Status.CANCELLED: Notice(
        _("This request was withdrawn"), (_("The run was cancelled, so no response is needed."),)
    ),
    Interrupt.Status.DECIDED: Notice(_("This request has been decided")),
}

#: Text about the run of an expired interrupt, by the interrupt's expiry action.
EXPIRED = {
    "answer": (_("The run resumed with the default response."),),
    "cancel": (_("The run was cancelled."),),
    "park": (_("The run is parked. Retrying it sends a new request."),),
}

CONFLICTS: dict[type[Exception], Notice] = {
    NotAllowedError: Notice(
        _("You can't decide this request"),
        (_("You can view this request, but you don’t have permission to decide it."),),
        "error",
    ),
    StaleInterruptError: Notice(
        _("This request has changed since you opened it"),
        (_("Review the current version before you decide."),),
    ),
    RunStateError: Notice(
        _("This request can't be decided right now"),
        (_("The run has stopped. Retry the run before deciding this request."),),
    ),
    SelfApprovalError: Notice(
        _("You can't approve this request"),
        (_("You started this run, so someone else has to approve the request."),),
        "error",
    ),
    AlreadyApprovedError: Notice(
        _("You already approved this version"),
        (_("More approvals are needed. You can still reject the request."),),
    ),
    ClaimRequiredError: Notice(
        _("Claim this request before you decide"),
        (
            _(
                "Only the reviewer who has claimed the request can decide it, so that two people "
                "don't work on it at the same time."
            ),
        ),
    ),
}


def describe_claim(error: ClaimedError) -> str:
    """Return the text that asks for a confirmation because another user has the claim."""
    until, now = map(to_local, (error.until, timezone.now()))
    moment = time_format(until) if until.date() == now.date() else localize(until)
    # The formatted time may end in a full stop, as in "p.m.".
    texts = {"who": escape_hidden(error.claimed_by_label), "until": moment.removesuffix(".")}
    return _("Claimed by %(who)s until %(until)s. Decide anyway?") % texts


def describe_conflict(error: Exception) -> Notice:
    """Return the notice about an action that failed because of this error."""
    if isinstance(error, ClaimedError):
        texts = {"who": error.claimed_by_label, "until": format_moment(error.until)}
        lines = (_("Claimed until %(until)s, or until released.") % texts,)
        return Notice(_("Claimed by %(who)s") % texts, lines)
    return CONFLICTS[type(error)]


def describe_outcome(item: Interrupt, decision: Decision | None, user: Any) -> Notice:
    """Return the notice about a closed interrupt."""
    if decision is None or item.status != Interrupt.Status.DECIDED:
        notice = CLOSED.get(Interrupt.Status(item.status), CLOSED[Interrupt.Status.DECIDED])
        if item.status == Interrupt.Status.EXPIRED:
            return replace(notice, lines=(*notice.lines, *EXPIRED.get(item.then, ())))
        return notice
    mine = decision.by_id is not None and decision.by_id == user.pk
    type_ = DECISION_TYPES[decision.type]
    headline = type_.done_by_you if mine else type_.done_by_other % {"who": decision.by_label}
    moment = format_moment(decision.created_at)
    if item.changed_at is not None:
        return Notice(headline, (moment, CHANGED), "warning")
    return Notice(headline, (moment,), "info")


def describe_change(item: Interrupt, version: str, decision: Decision | None, user: Any) -> Any:
    """Return the headline for an interrupt that has changed since the page was rendered.

    If the interrupt hasn't changed, the result is "". ``version`` is the interrupt's version on the
    page. ``decision`` is the decision that closed the interrupt.
    """
    if item.status != Interrupt.Status.PENDING:
        return describe_outcome(item, decision, user).headline
    return "" if str(item.version) == version else CONFLICTS[StaleInterruptError].headline


def add_not_saved(notice: Notice, decision: Decision | None, user: Any) -> Notice:
    """Add to a notice the sentence that the submitted response was not saved.

    ``decision`` is the stored decision on the interrupt, if any. If the same user made this
    decision, the sentence says that only the latest submission was not saved.
    """
    if decision is not None and decision.by_id is not None and decision.by_id == user.pk:
        return replace(notice, lines=(*notice.lines, NOT_RECORDED), tone="warning")
    return add_nothing_sent(notice)


def add_nothing_sent(notice: Notice) -> Notice:
    """Add to a notice the sentence that none of the entered values were sent."""
    tone = "error" if notice.tone == "error" else "warning"
    return replace(notice, lines=(*notice.lines, NOTHING_SENT), tone=tone)


def describe_worker_outage(outage: WorkerOutage) -> Notice:
    """Return the notice for reviewers that no worker is running."""
    lines: list[Any] = [_("Decisions are saved, but runs won't resume until a worker is running.")]
    if outage.last_seen is not None:
        moment = format_moment(outage.last_seen)
        # Append this sentence last, because a formatted time may end in a full stop.
        lines.append(
            _("Check that a worker is running. Last worker seen: %(moment)s") % {"moment": moment}
        )
    return Notice(_("No worker is running"), tuple(lines))
