"""Messages of a link's page where there is nothing to decide."""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.admin.display.refusal_messages import Notice
from hitl_django.audit import SYSTEM
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Decision

from ..services import LinkInfo, LinkState

TOO_LARGE = Notice(
    _("This is too large to be sent"),
    (
        _("Nothing of yours was recorded."),
        _("Your browser’s Back button leads to what you wrote. Shorten it, and send it again."),
    ),
)
NO_FILE = Notice(_("There is no such file"), (_("Go back to the question."),))
NOT_OFFERED = Notice(_("This can't be done here"))
AWAY = Notice(
    _("This can't be shown right now"), (_("Wait a minute, and then open the link again."),)
)
FAILED = Notice(
    _("Something went wrong here"),
    (_("Open the link again. It says whether your answer was recorded."),),
)
TOO_OFTEN = Notice(_("Too many calls"), (_("Wait a minute, and then open the link again."),))

#: Above a form that may not have been sent from the page.
UNSIGNED = _(
    "It is not certain that this was sent from this page. "
    "Look at it once more, and press the button again."
)

BY_STATE: dict[str, Notice] = {
    LinkState.USED: Notice(_("This link has been used"), tone="done"),
    LinkState.EXPIRED: Notice(_("This link has expired"), (_("It was for a limited time."),)),
    LinkState.REVOKED: Notice(
        _("This link was taken back"), (_("Whoever made it has decided that it no longer holds."),)
    ),
    LinkState.VOID: Notice(_("This link no longer holds")),
    LinkState.STALE: Notice(
        _("The question has changed"),
        (_("This link was for what was asked before. Nothing of yours was recorded."),),
    ),
    LinkState.DECIDED: Notice(
        _("Somebody else has decided"), (_("Nothing of yours was recorded."),)
    ),
    LinkState.CLOSED: Notice(
        _("This is no longer asked"), (_("There is nothing left to decide."),)
    ),
    LinkState.WAITING: Notice(
        _("This can't be decided right now"), (_("Open the link again later."),)
    ),
    LinkState.CLAIMED: Notice(
        _("Somebody else is at it right now"),
        (_("Nothing of yours was recorded."), _("Open the link again later.")),
    ),
}

REQUEST_NEW_LINK = frozenset(
    {LinkState.EXPIRED, LinkState.REVOKED, LinkState.VOID, LinkState.STALE, LinkState.WAITING}
)


def get_closed_message(link: LinkInfo, decision: Decision | None) -> Notice:
    """Returns what to say of a link that can't be used."""
    if decision is not None:
        thanks = gettext("Thank you, %(name)s. Your answer is recorded.")
        type_ = DECISION_TYPES.get(decision.type)
        line = "" if type_ is None else type_.thanks
        return Notice(thanks % {"name": escape_hidden(link.name)}, (line,), "done")
    words = BY_STATE[link.state]
    if link.state not in REQUEST_NEW_LINK:
        return words
    whom = gettext("If you still want to decide, ask whoever sent it to you for another link.")
    if maker := get_creator(link):
        sentence = gettext("If you still want to decide, ask %(maker)s for another link.")
        whom = sentence % {"maker": maker}
    return Notice(words.headline, (*words.lines, whom), words.tone)


def get_creator(link: LinkInfo) -> str:
    """Names who made a link; nobody, if it was code."""
    return "" if link.created_by_label == SYSTEM else escape_hidden(link.created_by_label)
