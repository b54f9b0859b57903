"""Redirect from the admin index to a user's start page, for users without access to other apps."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from hitl_django.models import ReviewItem, Run
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy

#: Package that contains the app and the optional apps in ``contrib``.
PACKAGE = "hitl_django"
#: Values of the header Sec-Fetch-Site for requests that don't come from a page of this site.
FROM_OUTSIDE = frozenset({"none", "cross-site", "same-site"})


def open_on_start_page(site: AdminSite) -> None:
    """Redirect from an admin site's index to the overview (operators) or the queue (reviewers).

    A user is redirected only if the index lists nothing but pages of this package. The redirect
    happens after a login, or when a user opens the index from outside of the site. Links within the
    site still lead to the index. Reviewers without pending requests are not redirected.
    """
    log_in, show_index = site.login, site.index

    @wraps(log_in)
    def login(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = log_in(request, extra_context)
        own = reverse("admin:index", current_app=site.name)
        if request.method == "POST" and response.get("Location") == own:
            response["Location"] = _find_start_page(site, request) or own
        return response

    @wraps(show_index)
    def index(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Without the header, a click on "Home" can't be distinguished from a typed URL.
        if request.headers.get("Sec-Fetch-Site") in FROM_OUTSIDE:
            start = _find_start_page(site, request)
            if start:
                return HttpResponseRedirect(start)
        return show_index(request, extra_context)

    site.login = login  # type: ignore[method-assign]
    site.index = index  # type: ignore[method-assign,assignment]


def _find_start_page(site: AdminSite, request: HttpRequest) -> str:
    # Imported on first use: see hitl_django.admin.deferred_page.
    from hitl_django import services
    from hitl_django.admin.base import can_view_runs

    labels = {listed["app_label"] for listed in site.get_app_list(request)}
    names = [apps.get_app_config(label).name for label in labels if label in apps.app_configs]
    is_ours = all(name.partition(".")[0] == PACKAGE for name in names)
    if not is_ours:
        return ""
    if get_policy().may_view_workers(request.user) and can_view_runs(request):
        return find_admin_page(Run, "overview", request=request)
    if not services.count_for(request.user, most=1):
        return ""
    return find_admin_page(ReviewItem, "changelist", request=request)
