"""Findings of ``manage.py hitl doctor`` about schedules."""

from __future__ import annotations

from collections.abc import Iterator

from hitl_django.extensions import Finding

from .due_times import select_schedules


def report_failing() -> Iterator[Finding]:
    """Yield a finding for each active schedule that could not start a run at its last due time."""
    for row in select_schedules().filter(is_active=True).exclude(last_error=""):
        yield Finding(
            "warning",
            f"Schedule {str(row)!r} ({row.pk}) can't start runs: {row.last_error}",
            "Fix the cause, or pause or delete the schedule. It is tried again at its "
            "next due time.",
        )
