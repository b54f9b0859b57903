"""Errors of schedules."""

from __future__ import annotations

from django.http import Http404

from hitl_django.errors import HitlError

__all__ = ["CodeDefinedScheduleError", "ScheduleNotFound"]


class ScheduleNotFound(HitlError, LookupError, Http404):
    """There is no such schedule."""

    http_status = 404
    code = "not_found"


class CodeDefinedScheduleError(HitlError):
    """The schedule is defined in code and changed there; it can be paused here."""

    http_status = 409
    code = "code_defined_schedule"
