"""Redirect from the admin index to the review queue, for users without access to other apps."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from hitl_django import services
from hitl_django.models import ReviewItem
from hitl_django.page_urls import find_admin_page

#: Package that contains the app and the optional apps in ``contrib``.
PACKAGE = "hitl_django"
#: Values of the header Sec-Fetch-Site for requests that don't come from a page of this site.
FROM_OUTSIDE = frozenset({"none", "cross-site", "same-site"})


def land_in_queue(site: AdminSite) -> None:
    """Make an admin site open on the queue if the user has pending requests.

    The redirect applies to users who can view only pages of this package, since the index shows
    them nothing else. The index redirects after a login, or when a user opens the index from
    outside of the site. Links within the site still lead to the index.
    """
    log_in, show_index = site.login, site.index

    @wraps(log_in)
    def login(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = log_in(request, extra_context)
        own = reverse("admin:index", current_app=site.name)
        if request.method == "POST" and response.get("Location") == own:
            response["Location"] = _find_queue(site, request) or own
        return response

    @wraps(show_index)
    def index(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Without the header, a click on "Home" can't be distinguished from a typed URL.
        if request.headers.get("Sec-Fetch-Site") in FROM_OUTSIDE:
            queue = _find_queue(site, request)
            if queue:
                return HttpResponseRedirect(queue)
        return show_index(request, extra_context)

    site.login = login  # type: ignore[method-assign]
    site.index = index  # type: ignore[method-assign,assignment]


def _find_queue(site: AdminSite, request: HttpRequest) -> str:
    labels = {listed["app_label"] for listed in site.get_app_list(request)}
    names = [apps.get_app_config(label).name for label in labels if label in apps.app_configs]
    is_ours = all(name.partition(".")[0] == PACKAGE for name in names)
    if not is_ours or not services.count_for(request.user, most=1):
        return ""
    return find_admin_page(ReviewItem, "changelist", request=request)
