"""Errors of schedules."""

from __future__ import annotations

from django.http import Http404

from hitl_django.errors import HitlError

__all__ = ["CodeDefinedScheduleError", "ScheduleNotFound"]


class ScheduleNotFound(HitlError, LookupError, Http404):
    """The schedule doesn't exist."""

    http_status = 404
    code = "not_found"


class CodeDefinedScheduleError(HitlError):
    """The schedule is defined in code, so it can only be paused."""

    http_status = 409
    code = "code_defined_schedule"
