"""Errors of schedules."""

from __future__ import annotations

from typing import ClassVar

from django.http import Http404

from hitl_django.engine.errors import HitlError

__all__ = ["CodeDefinedScheduleError", "ScheduleNotFound"]


class ScheduleNotFound(HitlError, LookupError, Http404):
    """There is no such schedule."""

    http_status: ClassVar = 404
    code: ClassVar = "not_found"


class CodeDefinedScheduleError(HitlError):
    """The schedule is defined in code and changed there; it can be paused here."""

    http_status: ClassVar = 409
    code: ClassVar = "code_defined_schedule"
