"""Errors of review links."""

from __future__ import annotations

from django.http import Http404

from hitl_django.errors import HitlError

__all__ = ["LinkNotFound", "LinkUnusableError"]


class LinkNotFound(HitlError, LookupError, Http404):
    """The review link does not exist."""

    http_status = 404
    code = "not_found"


class LinkUnusableError(HitlError):
    """The review link can no longer be used."""

    http_status = 409
    code = "link_spent"

    def __init__(self, message: str = "", *, state: str) -> None:
        super().__init__(message or f"The review link can no longer be used: {state}.")
        self.state = state
