"""Messages that confirm a decision, with the state of its run."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Interrupt
from hitl_django.services import DecisionInfo

from .run_status import RunStatusLine


def format_recorded(message: Any, key: str, part: str = "answer") -> str:
    """Return a message about a submitted form as HTML, with an invisible mark for review.js.

    The browser stores typed texts as drafts. The mark makes review.js delete the submitted texts
    from the draft with the key ``key``. ``part`` is the submitted part of the page: the name of an
    action or a panel, or ``"answer"`` for the response.
    """
    mark = '{} <span data-hitl-recorded="{}" data-hitl-part="{}"></span>'
    return format_html(mark, message, key, part)


def format_confirmation(
    item: Interrupt,
    made: DecisionInfo,
    line: RunStatusLine,
    *,
    status_url: str,
    run_url: str,
    undo: str,
) -> str:
    """Return the message that confirms the decision ``made``, with the status line ``line``.

    A script updates the status line. ``undo`` is the HTML of the undo button, or empty.
    """
    # Escape the title first, because the sentence is a format string.
    type_ = DECISION_TYPES[made.type]
    words = str(type_.recorded if made.complete else type_.recorded_as_approval)
    counted = {"approvals": made.approvals, "quorum": made.quorum}
    message = format_html(words, title=escape_hidden(item.title), **counted)
    if not made.complete:
        return message
    return format_html(
        '{} {} <span class="hitl-follow" data-hitl-watch="{}">{}</span> <a href="{}">{}</a>',
        message,
        undo,
        status_url if line.moves else "",
        line.text,
        run_url,
        _("View run"),
    )
