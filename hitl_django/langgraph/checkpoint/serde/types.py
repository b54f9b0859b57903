"""Names of control writes, which don't belong to a channel."""

from __future__ import annotations

from hitl_django.engine.constants import ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS

__all__ = ["ERROR", "INTERRUPT", "RESUME", "SCHEDULED", "TASKS"]
