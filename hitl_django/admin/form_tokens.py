"""CSRF check of submitted forms, with error pages that preserve the submitted values.

The error page of Django's own check discards typed text. The admin pages are therefore exempt from
Django's check, and each page performs the same check before any other code runs. If a form
is submitted after the session has expired, a similar page is shown before the login.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse, QueryDict
from django.middleware.csrf import CsrfViewMiddleware
from django.template.loader import render_to_string
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt

from hitl_django.forms.submission import hide_from_reports

from .outage_page import Field, read_fields

logger = logging.getLogger("django.security.csrf")

#: Query parameter of a request page whose decision was submitted without a session.
UNSENT = "unsent"

#: Names of fields that contain no text typed by the user.
UNWRITTEN = frozenset(
    {
        "_selected_action",
        "action",
        "after",
        "all",
        "at",
        "confirmed",
        "csrfmiddlewaretoken",
        "decision",
        "digest",
        "done",
        "group",
        "index",
        "item",
        "items",
        "key",
        "made",
        "more",
        "ignore_claim",
        "over_claim_of",
        "results",
        "secret",
        "select_across",
        "start",
        "stop",
        "until",
        "verb",
        "version",
    }
)

#: Ends of the names of response form fields that contain no typed text: the checkbox that removes
#: an object, the choice of an alternative, and the number of a list's rows.
UNWRITTEN_ENDS = ("?absent", "?kind", "?rows")


class FormTokenCheck(CsrfViewMiddleware):
    """Django's CSRF check.

    On failure, the check returns the reason instead of a response.
    """

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def check_form_token(view: Callable[..., Any]) -> Callable[..., Any]:
    """Make a view return an error page if the form has no valid CSRF token."""
    check = FormTokenCheck(lambda request: HttpResponse())

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        hide_from_reports(request)
        check.process_request(request)
        reason = check.process_view(request, view, (), {})
        if reason is not None:
            return _render(request, str(reason))
        response = view(request, *args, **kwargs)
        is_anonymous = request.method == "POST" and request.user.is_anonymous
        return _keep_text(request, response) if is_anonymous else response

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


def _keep_text(request: HttpRequest, response: Any) -> Any:
    """Replace a redirect to the login by a page that shows the typed text.

    The redirect is returned unchanged if the submitted form contains neither a decision nor typed
    text. Responses that are not redirects are also returned unchanged.
    """
    if response.status_code != 302 or (fields := read_fields(request)) is None:
        return response
    is_decision = "decision" in request.POST
    kept = [one for one in fields if _is_written(one)]
    if not kept and not is_decision:
        return response
    address = response["Location"]
    login = urlsplit(address)
    query = QueryDict(login.query, mutable=True)
    if is_decision and request.path.endswith("/change/") and REDIRECT_FIELD_NAME in query:
        back = query[REDIRECT_FIELD_NAME]
        query[REDIRECT_FIELD_NAME] = f"{back}{'&' if '?' in back else '?'}{UNSENT}=1"
        address = urlunsplit(login._replace(query=query.urlencode(safe="/")))
    context = {"address": address, "kept": kept, "is_decision": is_decision}
    page = render_to_string("hitl_django/admin/logged_out.html", context)
    return HttpResponse(page, status=403, headers={"Cache-Control": "no-store"})


def _is_written(field: Field) -> bool:
    """Return whether the field's value can be text that the user typed."""
    is_text = field.name not in UNWRITTEN and not field.name.endswith(UNWRITTEN_ENDS)
    return is_text and bool(field.value.strip())
