"""Middleware that shows a page for a form beyond Django's upload limits, on our admin pages.

Django measures a form when its first field is read, which ``CsrfViewMiddleware`` does. What it
raises there reaches no view, and a bare "Bad Request" is all that somebody sees who has just
written a long answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from hitl_django.admin.base import ReadOnlyAdmin
from hitl_django.db import outages
from hitl_django.forms import submission


class FormLimits(MiddlewareMixin):
    """Answers a form of this app's admin that is too large; goes before ``CsrfViewMiddleware``."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        """Read the form before anybody else does; nothing is done with what is in it."""
        pages = getattr(view, "model_admin", None)
        if request.method != "POST" or not isinstance(pages, ReadOnlyAdmin):
            return None
        try:
            submission.read_form(request)
        except submission.TOO_LARGE as error:
            # A stranger's is as good as empty from now on, and what is left of it isn't read.
            if _is_staff(request, pages):
                submission.discard_body(request)
                return pages.too_large(request, too_many=isinstance(error, TooManyFieldsSent))
        return None


def _is_staff(request: HttpRequest, pages: ReadOnlyAdmin) -> bool:
    try:
        return pages.admin_site.has_permission(request)
    except outages.ERRORS:
        return False  # the page meets the same, and has words for it
