"""Handlers called when a run pauses and when it resumes."""

from __future__ import annotations

from hitl_django.engine.task.callbacks import (
    GraphCallbackHandler,
    GraphInterruptEvent,
    GraphLifecycleEvent,
    GraphLifecycleStatus,
    GraphResumeEvent,
)

__all__ = [
    "GraphCallbackHandler",
    "GraphInterruptEvent",
    "GraphLifecycleEvent",
    "GraphLifecycleStatus",
    "GraphResumeEvent",
]
