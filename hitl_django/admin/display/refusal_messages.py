"""Messages about a question that can't be decided any more, or not like this."""

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
    """A headline and the sentences below it; ``tone`` is how the page colours them."""

    headline: Any
    lines: tuple[Any, ...] = ()
    tone: str = "warning"


NOTHING_SENT = _("Nothing of yours was sent.")
NOT_RECORDED = _("What you sent now was not recorded.")

CHANGED = _(
    "When the run went on, its node asked something else than what stands here. This answer may "
    "have been used for that."
)

CLOSED = {
    Interrupt.Status.EXPIRED: Notice(
        _("This question expired"), (_("Nobody decided it in time."),)
    ),
    Interrupt.Status.SUPERSEDED: Notice(
        _("This question was superseded"),
        (_("Its run went on without the answer, or a new run took its place."),),
    ),
    Interrupt.Status.CANCELLED: Notice(
        _("This question was withdrawn"), (_("Its run was cancelled, so no answer is needed."),)
    ),
    Interrupt.Status.DECIDED: Notice(_("This question was decided")),
}

#: What became of the run of a question that expired.
EXPIRED = {
    "answer": (_("The run went on with the answer that was named for this case."),),
    "cancel": (_("Its run was cancelled."),),
    "park": (_("Its run waits until somebody lets it go on, and then asks again."),),
}

CONFLICTS: dict[type[Exception], Notice] = {
    NotAllowedError: Notice(
        _("You may not decide this question"),
        (_("You can look at it, but deciding needs a permission that you don't have."),),
        "error",
    ),
    StaleInterruptError: Notice(
        _("The question has changed since you opened it"),
        (_("Look at what it asks now, and decide on that."),),
    ),
    RunStateError: Notice(
        _("The question can't be decided right now"),
        (_("Its run has stopped. It can be decided once somebody lets the run go on."),),
    ),
    SelfApprovalError: Notice(
        _("You may not approve this"),
        (_("You started its run, so somebody else has to approve what it asks."),),
        "error",
    ),
    AlreadyApprovedError: Notice(
        _("You have approved this version"),
        (_("Others have to agree before it counts. You can still reject it."),),
    ),
    ClaimRequiredError: Notice(
        _("Claim this question before you decide it"),
        (
            _(
                "Only the person who holds it can decide it, so that no two people work on it at "
                "once."
            ),
        ),
    ),
}


def describe_claim(error: ClaimedError) -> str:
    """Asks whether to decide a question that somebody else holds."""
    until, now = map(to_local, (error.until, timezone.now()))
    moment = time_format(until) if until.date() == now.date() else localize(until)
    # The sentence has a full stop of its own, behind "p.m." too.
    texts = {"who": escape_hidden(error.claimed_by_label), "until": moment.removesuffix(".")}
    return _("%(who)s holds this until %(until)s. Decide anyway?") % texts


def describe_conflict(error: Exception) -> Notice:
    """Says why something could not be done."""
    if isinstance(error, ClaimedError):
        texts = {"who": error.claimed_by_label, "until": format_moment(error.until)}
        lines = (_("They hold it until %(until)s, or until they release it.") % texts,)
        return Notice(_("%(who)s holds this question") % texts, lines)
    return CONFLICTS[type(error)]


def describe_undo_refusal(error: Exception) -> Notice:
    """Says why a decision could not be undone."""
    if isinstance(error, NotAllowedError):
        return Notice(
            _("You may not undo this decision"), (_("Only who decided can undo it."),), "error"
        )
    return Notice(
        _("This can't be undone any more"), (_("The run goes on with what was decided."),)
    )


def describe_outcome(item: Interrupt, decision: Decision | None, user: Any) -> Notice:
    """Says what became of a closed question."""
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
    """Says what has become of a question since its page was made; "" where nothing has.

    ``version`` is the one that the page shows, ``decision`` the one that closed the question.
    """
    if item.status != Interrupt.Status.PENDING:
        return describe_outcome(item, decision, user).headline
    return "" if str(item.version) == version else CONFLICTS[StaleInterruptError].headline


def describe_other_decision(notice: Notice, decision: Decision | None, user: Any) -> Notice:
    """Says it to somebody who was about to decide the question too."""
    if decision is not None and decision.by_id is not None and decision.by_id == user.pk:
        return replace(notice, lines=(*notice.lines, NOT_RECORDED), tone="warning")
    return add_nothing_sent(notice)


def add_nothing_sent(notice: Notice) -> Notice:
    """Adds that nothing of the user's was sent."""
    tone = "error" if notice.tone == "error" else "warning"
    return replace(notice, lines=(*notice.lines, NOTHING_SENT), tone=tone)


def describe_worker_outage(silence: WorkerOutage) -> Notice:
    """Says to those who decide that nobody carries it out."""
    lines: list[Any] = [_("What you decide is recorded. Runs go on when a worker does.")]
    if silence.last_seen is not None:
        moment = format_moment(silence.last_seen)
        # At the end, since moments may end in a full stop of their own.
        lines.append(_("See whether one runs. One last reported: %(moment)s") % {"moment": moment})
    return Notice(_("No worker reports"), tuple(lines))
