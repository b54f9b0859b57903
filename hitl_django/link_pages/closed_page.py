"""What the page says where there is nothing to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.audit import SYSTEM
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.forms.json_input import visible
from hitl_django.models import Decision
from hitl_django.services import LinkInfo, LinkState


@dataclass(frozen=True)
class Words:
    """A headline, and the sentences below it."""

    headline: Any
    lines: tuple[Any, ...] = ()
    tone: str = "warning"


UNKNOWN = Words(
    _("This link leads nowhere"),
    (_("It may have been copied in part. Open it again from where you got it."),),
)
TOO_LARGE = Words(
    _("This is too large to be sent"),
    (
        _("Nothing of yours was recorded."),
        _("Your browser’s Back button leads to what you wrote. Shorten it, and send it again."),
    ),
)
UNREADABLE = Words(
    _("What was sent can't be read"),
    (_("Nothing of yours was recorded."), _("Open the link again.")),
)
NOT_OFFERED = Words(_("This can't be done here"))
AWAY = Words(
    _("This can't be shown right now"), (_("Wait a minute, and then open the link again."),)
)
FAILED = Words(
    _("Something went wrong here"),
    (_("Open the link again. It says whether your answer was recorded."),),
)
TOO_OFTEN = Words(_("Too many calls"), (_("Wait a minute, and then open the link again."),))

#: Above a form that may not have been sent from the page.
UNSIGNED = _(
    "It is not certain that this was sent from this page. "
    "Look at it once more, and press the button again."
)

SPENT: dict[str, Words] = {
    LinkState.USED: Words(_("This link has been used"), tone="done"),
    LinkState.EXPIRED: Words(_("This link has expired"), (_("It was for a limited time."),)),
    LinkState.REVOKED: Words(
        _("This link was taken back"), (_("Whoever made it has decided that it no longer holds."),)
    ),
    LinkState.VOID: Words(_("This link no longer holds")),
    LinkState.STALE: Words(
        _("The question has changed"),
        (_("This link was for what was asked before. Nothing of yours was recorded."),),
    ),
    LinkState.DECIDED: Words(
        _("Somebody else has decided"), (_("Nothing of yours was recorded."),)
    ),
    LinkState.CLOSED: Words(_("This is no longer asked"), (_("There is nothing left to decide."),)),
    LinkState.WAITING: Words(
        _("This can't be decided right now"), (_("Open the link again later."),)
    ),
    LinkState.HELD: Words(
        _("Somebody else is at it right now"),
        (_("Nothing of yours was recorded."), _("Open the link again later.")),
    ),
}

ASK = frozenset(
    {LinkState.EXPIRED, LinkState.REVOKED, LinkState.VOID, LinkState.STALE, LinkState.WAITING}
)


def words_for(link: LinkInfo, decision: Decision | None) -> Words:
    """Returns what to say of a link that can't be used."""
    if decision is not None:
        thanks = gettext("Thank you, %(name)s. Your answer is recorded.")
        type_ = DECISION_TYPES.get(decision.type)
        line = "" if type_ is None else type_.thanks
        return Words(thanks % {"name": visible(link.name)}, (line,), "done")
    words = SPENT[link.state]
    if link.state not in ASK:
        return words
    whom = gettext("If you still want to decide, ask whoever sent it to you for another link.")
    if maker := maker_of(link):
        said = gettext("If you still want to decide, ask %(maker)s for another link.")
        whom = said % {"maker": maker}
    return Words(words.headline, (*words.lines, whom), words.tone)


def maker_of(link: LinkInfo) -> str:
    """Names who made a link; nobody, if it was code."""
    return "" if link.created_by_label == SYSTEM else visible(link.created_by_label)
