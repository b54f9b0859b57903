"""CSRF check of forms, with an error page that preserves the submitted values.

The error page of Django's own check discards typed text. The admin pages are therefore exempt from
that check and perform it themselves before any other code runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.template.loader import render_to_string
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt

from hitl_django.forms.submission import hide_from_reports

from .outage_page import Field, read_fields

logger = logging.getLogger("django.security.csrf")

#: Names of fields that contain no text typed by the user.
UNWRITTEN = frozenset(
    {
        "_selected_action",
        "action",
        "after",
        "all",
        "confirmed",
        "csrfmiddlewaretoken",
        "decision",
        "digest",
        "group",
        "index",
        "item",
        "key",
        "made",
        "more",
        "ignore_claim",
        "over_claim_of",
        "secret",
        "select_across",
        "start",
        "until",
        "verb",
        "version",
    }
)


class FormTokenCheck(CsrfViewMiddleware):
    """Django's CSRF check.

    On failure it returns the reason instead of a response.
    """

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def check_form_token(view: Callable[..., Any]) -> Callable[..., Any]:
    """Make a view return the error page if the form has no valid CSRF token."""
    check = FormTokenCheck(lambda request: HttpResponse())

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        hide_from_reports(request)
        check.process_request(request)
        reason = check.process_view(request, view, (), {})
        if reason is None:
            return view(request, *args, **kwargs)
        return _render(request, str(reason))

    # Without the exemption, the site's middleware would check the token first.
    return csrf_exempt(answer)


def _render(request: HttpRequest, reason: str) -> HttpResponse:
    fields = read_fields(request)
    if fields is not None:
        fields = [one for one in fields if _is_written(one)]
    context = {"address": request.get_full_path(), "kept": fields}
    page = render_to_string("hitl_django/admin/untrusted_form.html", context)
    response = HttpResponse(page, status=403, headers={"Cache-Control": "no-store"})
    words = "Forbidden (%s): %s"
    log_response(words, reason, request.path, response=response, request=request, logger=logger)
    return response


def _is_written(field: Field) -> bool:
    """Return whether the user may have typed the field's value.

    Names of checkboxes and counts contain a "?".
    """
    return field.name not in UNWRITTEN and "?" not in field.name and bool(field.value.strip())
