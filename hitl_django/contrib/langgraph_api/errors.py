"""Errors of assistants."""

from __future__ import annotations

from django.http import Http404

from hitl_django.errors import HitlError

__all__ = ["AssistantExistsError", "AssistantVersionNotFound", "BuiltInAssistantError"]


class AssistantExistsError(HitlError):
    """An assistant with this id already exists."""

    http_status = 409
    code = "assistant_exists"


class AssistantVersionNotFound(HitlError, LookupError, Http404):
    """The assistant has no version with this number."""

    http_status = 404
    code = "not_found"


class BuiltInAssistantError(HitlError):
    """The assistant is built in, so it can't be changed or deleted."""

    http_status = 409
    code = "built_in_assistant"
