"""The check that a form came from a page of this site, and the page for one that may not have.

Django's check has one page for the whole site, which keeps nothing of what was written. So our
pages are exempt from it, and make the same check themselves before anything else of them runs.
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

#: What forms have that nobody has written.
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
    """Django's check, which says why it refuses a form in the place of an answer."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def check_form_token(view: Callable[..., Any]) -> Callable[..., Any]:
    """Has a view answer with the page unless a form bears the token of one of this site's pages."""
    check = FormTokenCheck(lambda request: HttpResponse())

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        hide_from_reports(request)
        check.process_request(request)
        reason = check.process_view(request, view, (), {})
        if reason is None:
            return view(request, *args, **kwargs)
        return _render(request, str(reason))

    # The check of the site's middleware would come first.
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
    """Return whether somebody may have written this; a "?" stands in names of ticks and counts."""
    return field.name not in UNWRITTEN and "?" not in field.name and bool(field.value.strip())
