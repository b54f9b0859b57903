"""Button that undoes a decision until the run resumes, and messages about the undo."""

from __future__ import annotations

import math
from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.display.refusal_messages import Notice
from hitl_django.errors import InterruptNotFound, NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Interrupt


def render_undo_button(request: HttpRequest, interrupt_id: Any, url: str, made: Any = ()) -> str:
    """Return the form with the undo button, or an empty string if the user can't undo the decision.

    The button undoes the decision on the interrupt or, after a bulk decision, the decisions in
    ``made``. A script counts down the remaining seconds. If the run still waits for other
    responses, the form contains no number of seconds, because the decision can be undone until the
    run resumes.
    """
    try:
        info = services.find_undo(interrupt_id, by=request.user)
    except InterruptNotFound:
        return ""
    if info is None:
        return ""
    left = None if info.until is None else (info.until - timezone.now()).total_seconds()
    context = {
        "url": url,
        "made": made or [info.decision_id],
        "several": bool(made),
        "seconds": None if left is None else max(math.ceil(left), 1),
    }
    return render_to_string("hitl_django/admin/undo_button.html", context, request)


def format_undone(item: Interrupt) -> str:
    """Return the message that a decision was undone, as HTML with an invisible mark.

    When review.js finds the mark, the script restores the submitted values from the browser's
    draft.
    """
    words = str(_("Decision undone. “{title}” is pending again."))
    message = format_html(words, title=escape_hidden(item.title))
    return format_html('{} <span data-hitl-undone="{}"></span>', message, item.pk)


def describe_undo_refusal(error: Exception) -> Notice:
    """Return the notice about a decision that could not be undone."""
    if isinstance(error, NotAllowedError):
        return Notice(
            _("You can't undo this decision"),
            (_("Only the person who made the decision can undo it."),),
            "error",
        )
    return Notice(_("This decision can no longer be undone"), (_("The run has resumed."),))
