"""Addresses of pages that the project may or may not have included."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from hitl_django.conf import hitl


def find_path(view: str, *args: Any) -> str | None:
    """Returns the path of a view; None where there is no such page."""
    if not getattr(settings, "ROOT_URLCONF", None):  # a worker may have settings of its own
        return None
    try:
        return reverse(view, args=args)
    except NoReverseMatch:
        return None


def find_url(view: str, *args: Any) -> str | None:
    """Returns the address of a view for what is sent out; None where there is no such page."""
    path = find_path(view, *args)
    return None if path is None else build_url(path)


def build_url(path: str) -> str:
    """Returns a path as an address that begins with SITE_URL."""
    return str(hitl.SITE_URL).rstrip("/") + path
