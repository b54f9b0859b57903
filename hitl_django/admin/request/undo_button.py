"""Button that undoes a decision, until the run of the interrupt resumes."""

from __future__ import annotations

import math
from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone

from hitl_django import services
from hitl_django.errors import InterruptNotFound


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
