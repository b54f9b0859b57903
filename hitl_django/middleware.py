"""Middleware that shows an error page for admin forms that exceed Django's upload limits.

Django checks the limits when the first field is read, in ``CsrfViewMiddleware``. No view receives
the error. Without this middleware, a user who has submitted a long response sees only "Bad
Request".
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
    """Show an error page if a form of this app's admin is too large.

    FormLimits must precede ``CsrfViewMiddleware`` in ``MIDDLEWARE``.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        """Return a page that explains the size limit if the submitted form is too large, else None.

        The form is read here before any other code reads it.
        """
        pages = getattr(view, "model_admin", None)
        if request.method != "POST" or not isinstance(pages, ReadOnlyAdmin):
            return None
        try:
            submission.read_form(request)
        except submission.TOO_LARGE as error:
            # For other users, the form is treated as empty, and the rest of the body isn't read.
            if _is_staff(request, pages):
                submission.discard_body(request)
                return pages.too_large(request, too_many=isinstance(error, TooManyFieldsSent))
        return None


def _is_staff(request: HttpRequest, pages: ReadOnlyAdmin) -> bool:
    try:
        return pages.admin_site.has_permission(request)
    except outages.ERRORS:
        return False  # The view fails in the same way and shows an error.
