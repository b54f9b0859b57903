"""All URLs of a project that includes all apps, from its URL resolver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.urls import get_resolver
from django.urls.resolvers import URLResolver

#: Other apps' pages in the admin, whose permissions are checked by Django.
FOREIGN = (
    "admin/auth/",
    "admin/django_q/",
    "admin/django_tasks_database/",
    "admin/procrastinate/",
)


def addresses() -> dict[str, Any]:
    return {
        name: view
        for name, route, view in _walk(get_resolver().url_patterns)
        if not route.startswith(FOREIGN)
    }


def _walk(patterns: Any, before: str = "", spaces: tuple[str, ...] = ()) -> Iterator[Any]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = (*spaces, pattern.namespace) if pattern.namespace else spaces
            yield from _walk(pattern.url_patterns, route, inner)
        else:
            name = ":".join((*spaces, pattern.name)) if pattern.name else route
            yield name, route, pattern.callback
