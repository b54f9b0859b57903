"""URLs of this app's pages and API in the current URL configuration.

Admin pages of a model may be on several admin sites or on none. If the URL configuration doesn't
include this app's URLs, the app has no pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string

from hitl_django.conf import hitl

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

#: The id in a URL that is reversed once and then used for several rows.
ANY_ID = UUID(int=0)


def find_path(view: str, *args: Any) -> str | None:
    """Return the path of a view, or None if the view isn't in the URL configuration."""
    # A worker may have other settings than the web processes.
    if not getattr(settings, "ROOT_URLCONF", None):
        return None
    try:
        return reverse(view, args=args)
    except NoReverseMatch:
        return None


def find_url(view: str, *args: Any) -> str | None:
    """Return a view's absolute URL, for links in messages. Return None if the view has no URL."""
    path = find_path(view, *args)
    return None if path is None else build_url(path)


def build_url(path: str) -> str:
    """Return the absolute URL of a path, based on SITE_URL."""
    return str(hitl.SITE_URL).rstrip("/") + path


def find_sites(model: Any, request: HttpRequest | None = None) -> Iterator[AdminSite]:
    """Yield the admin sites on which a model is registered, starting with the request's site.

    With a request, other sites to which the user has no access are omitted.
    """
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.sites import all_sites

    here = _site_name(request)
    for site in sorted(
        all_sites, key=lambda one: (one.name != here, one.name != "admin", one.name)
    ):
        is_open = request is None or site.name == here or site.has_permission(request)
        if is_open and site.is_registered(model):
            yield site


def find_admin_page(model: Any, page: str, *args: Any, request: HttpRequest | None = None) -> str:
    """Return the path of a model's admin page, or an empty string if no site has the page."""
    for site in find_sites(model, request):
        name = f"{site.name}:{model._meta.app_label}_{model._meta.model_name}_{page}"
        # The path exists if the site is in the URL configuration.
        if (path := find_path(name, *args)) is not None:
            return path
    return ""


class RequestPages:
    """The pages on which a user decides interrupts.

    The function in the setting ``REQUEST_URL`` returns the URL of an interrupt's page. Without this
    function, or if the function returns None, the page is in the admin. ``user`` is None for a link
    in a message to a system or to several people.
    """

    def __init__(self, user: Any = None, request: HttpRequest | None = None) -> None:
        self._user, self._request = user, request

    def find(self, interrupt: Any) -> str:
        """Return the URL of an interrupt's page, or an empty string. The URL may be a path."""
        own = import_string(hitl.REQUEST_URL)(self._user, interrupt) if hitl.REQUEST_URL else None
        return str(own or self._admin_page.replace(str(ANY_ID), str(interrupt.pk)))

    @cached_property
    def _admin_page(self) -> str:
        model = apps.get_model("hitl_django", "reviewitem")
        return find_admin_page(model, "change", ANY_ID, request=self._request)


def find_request_url(interrupt: Any, user: Any = None) -> str:
    """Return the absolute URL of an interrupt's page, for links in messages.

    The URL is empty if there is no page, or if its host is unknown because SITE_URL is not set.
    """
    page = RequestPages(user).find(interrupt)
    if not page.startswith("/"):
        return page
    return build_url(page) if hitl.SITE_URL else ""


def _site_name(request: HttpRequest | None) -> str:
    """Return the name of the request's admin site, as ``{% url %}`` determines it."""
    if name := getattr(request, "current_app", None):
        return str(name)
    match = getattr(request, "resolver_match", None)
    return str(match.namespace) if match is not None else ""
