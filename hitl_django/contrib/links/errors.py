"""Errors of review links."""

from __future__ import annotations

from typing import ClassVar

from django.http import Http404

from hitl_django.engine.errors import HitlError

__all__ = ["LinkNotFound", "LinkSpentError"]


class LinkNotFound(HitlError, LookupError, Http404):
    """There is no such link."""

    http_status: ClassVar = 404
    code: ClassVar = "not_found"


class LinkSpentError(HitlError):
    """The link can't be used any more."""

    http_status: ClassVar = 409
    code: ClassVar = "link_spent"

    def __init__(self, message: str = "", *, state: str) -> None:
        super().__init__(message or f"The link can't be used any more: it is {state}.")
        self.state = state
