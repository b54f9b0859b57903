"""Navigation of the review pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from hitl_django.extensions import list_extensions
from hitl_django.models import Decision, ReviewItem, Run
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy

#: Models whose lists are always shown, before and after the links of optional apps.
FIRST, LAST = (ReviewItem, Decision), (Run,)


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link to a list or a page."""

    label: Any
    url: str
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Navigation:
    """The links of the navigation bar, and the links of its menu."""

    links: Sequence[NavigationLink]
    more: Sequence[NavigationLink]


def build_navigation(request: HttpRequest, available_apps: Iterable[Any]) -> Navigation:
    """Return the navigation for the lists that an admin site offers to the user.

    ``available_apps`` comes from the template context of the admin site. It contains only models
    that the user may view, so the navigation needs no query.
    """
    listed = dict(_list_models(available_apps))
    overview = list(_list_overview(request, listed))
    first = [_link(listed.pop(model)) for model in FIRST if model in listed]
    last = [_link(listed.pop(model)) for model in LAST if model in listed]
    added = list(_list_added(request, listed))
    links = [*overview, *first, *added, *last]
    linked = {link.url for link in added}
    more = [_link(row) for row in listed.values() if row["admin_url"] not in linked]
    here = [link.url for link in (*links, *more) if request.path.startswith(link.url)]
    current = max(here, key=len, default="")
    return Navigation(
        [replace(link, is_current=link.url == current) for link in links],
        [replace(link, is_current=link.url == current) for link in more],
    )


def _list_models(available_apps: Iterable[Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield those models in ``available_apps`` that belong to this package or its optional apps."""
    names = {extension.name for extension in list_extensions()} | {"hitl_django"}
    for app in available_apps:
        if app["app_label"] in names:
            yield from ((row["model"], row) for row in app["models"] if row["admin_url"])


def _list_overview(request: HttpRequest, listed: Mapping[Any, Any]) -> Iterator[NavigationLink]:
    """Yield the link to the overview of runs, for operators. ``listed`` are the visible models."""
    if Run in listed and get_policy().may_view_workers(request.user):
        url = find_admin_page(Run, "overview", request=request)
        yield NavigationLink(_("Overview"), url)


def _list_added(request: HttpRequest, listed: Mapping[Any, Any]) -> Iterator[NavigationLink]:
    """Yield the navigation links of optional apps, for models in ``listed``.

    ``listed`` are the models that the user may view.
    """
    for link in (link for extension in list_extensions() for link in extension.admin_links):
        if link.model in listed:
            url = find_admin_page(link.model, link.page, request=request)
            if url:
                yield NavigationLink(link.label, url)


def _link(row: Mapping[str, Any]) -> NavigationLink:
    return NavigationLink(row["name"], row["admin_url"])
