"""A page for a form that is more than Django takes.

Django measures a form when its first field is read, which ``CsrfViewMiddleware`` does. What it
raises there reaches no view, and a bare "Bad Request" is all that somebody sees who has just
written a long answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from .admin.readonly import ReadOnlyAdmin
from .links import LinkPage

#: Of a body that is refused so much is read: a browser shows no answer before it has sent it all.
MOST, PART = 64 * 1024 * 1024, 64 * 1024


class FormLimits(MiddlewareMixin):
    """Says on this app's pages that a form is too large; stands before ``CsrfViewMiddleware``."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        """Reads the form before anybody else does; nothing is done with what is in it."""
        page = _page_of(request, view)
        if page is None or request.method != "POST":
            return None
        try:
            len(request.POST)
        except (RequestDataTooBig, TooManyFieldsSent) as error:
            _read_on(request)
            return page(request, too_many=isinstance(error, TooManyFieldsSent))
        return None


def _page_of(request: HttpRequest, view: Any) -> Callable[..., HttpResponse] | None:
    """Returns what says it in the view's own style; nothing for a view that isn't ours."""
    if getattr(view, "view_class", None) is LinkPage:
        return LinkPage.too_large
    pages = getattr(view, "model_admin", None)
    if isinstance(pages, ReadOnlyAdmin) and pages.admin_site.has_permission(request):
        return pages.too_large
    return None


def _read_on(request: HttpRequest) -> None:
    read = 0
    try:
        while read < MOST and (part := request.read(PART)):
            read += len(part)
    except (OSError, ValueError):
        pass  # it was read, or whoever sent it is gone
