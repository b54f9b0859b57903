"""Where a log-in leads: who has nothing else in the admin than reviews lands in the queue."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from hitl_django import services
from hitl_django.models import ReviewItem
from hitl_django.page_urls import find_admin_page

#: Where the app and those of ``contrib`` are.
PACKAGE = "hitl_django"


def land_in_queue(site: AdminSite) -> None:
    """Has the log-in of a site lead whom a question waits for to the queue instead of the index.

    That is for people who see pages of ours only: the index has nothing else for them.
    """
    log_in = site.login

    @wraps(log_in)
    def login(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = log_in(request, extra_context)
        index = reverse("admin:index", current_app=site.name)
        if request.method == "POST" and response.get("Location") == index:
            response["Location"] = _find_queue(site, request) or index
        return response

    site.login = login  # type: ignore[method-assign]


def _find_queue(site: AdminSite, request: HttpRequest) -> str:
    labels = {listed["app_label"] for listed in site.get_app_list(request)}
    names = [apps.get_app_config(label).name for label in labels if label in apps.app_configs]
    is_ours = all(name.partition(".")[0] == PACKAGE for name in names)
    if not is_ours or not services.count_for(request.user, most=1):
        return ""
    return find_admin_page(ReviewItem, "changelist", request=request)
