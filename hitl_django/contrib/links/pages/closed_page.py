"""Messages of the public page for links that can't be used."""

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
    _("Submission too large"),
    (
        _("Nothing was saved."),
        _("Use your browser’s Back button to return to your text. Shorten it and try again."),
    ),
)
NO_FILE = Notice(_("File not found"), (_("Go back to the request."),))
NOT_OFFERED = Notice(_("This action isn't supported here"))
AWAY = Notice(
    _("This page is temporarily unavailable"), (_("Wait a minute, then open the link again."),)
)
FAILED = Notice(
    _("Something went wrong"),
    (_("Open the link again to see whether your response was saved."),),
)

#: Shown above a form whose signature is missing or invalid.
UNSIGNED = _("Your session could not be verified. Check the page and submit again.")

BY_STATE: dict[str, Notice] = {
    LinkState.USED: Notice(_("This link has already been used"), tone="done"),
    LinkState.EXPIRED: Notice(
        _("This link has expired"), (_("The link was valid for a limited time."),)
    ),
    LinkState.REVOKED: Notice(
        _("This link was revoked"), (_("The person who created the link has revoked it."),)
    ),
    LinkState.INVALID: Notice(_("This link is no longer valid")),
    LinkState.STALE: Notice(
        _("This request has changed"),
        (_("The link was for an earlier version of the request. Nothing was saved."),),
    ),
    LinkState.DECIDED: Notice(_("Someone else has already decided"), (_("Nothing was saved."),)),
    LinkState.CLOSED: Notice(_("This request is closed"), (_("No decision is needed any more."),)),
    LinkState.WAITING: Notice(
        _("This request can't be decided right now"), (_("Open the link again later."),)
    ),
    LinkState.CLAIMED: Notice(
        _("Someone else is working on this request right now"),
        (_("Nothing was saved."), _("Open the link again later.")),
    ),
}

REQUEST_NEW_LINK = frozenset(
    {LinkState.EXPIRED, LinkState.REVOKED, LinkState.INVALID, LinkState.STALE, LinkState.WAITING}
)


def get_closed_message(link: LinkInfo, decision: Decision | None) -> Notice:
    """Return the message about a link that can't be used.

    ``decision`` is the decision made with the link, or None if the link was not used.
    """
    if decision is not None:
        thanks = gettext("Thank you, %(name)s. Your response has been saved.")
        type_ = DECISION_TYPES.get(decision.type)
        line = "" if type_ is None else type_.thanks
        return Notice(thanks % {"name": escape_hidden(link.name)}, (line,), "done")
    words = BY_STATE[link.state]
    if link.state not in REQUEST_NEW_LINK:
        return words
    whom = gettext("If you still need to decide, ask the sender for a new link.")
    if maker := get_creator(link):
        sentence = gettext("If you still need to decide, ask %(maker)s for a new link.")
        whom = sentence % {"maker": maker}
    return Notice(words.headline, (*words.lines, whom), words.tone)


def get_creator(link: LinkInfo) -> str:
    """Return the name of the user who created the link, or "" if code created it."""
    return "" if link.created_by_label == SYSTEM else escape_hidden(link.created_by_label)
