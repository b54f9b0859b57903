"""The functional API: workflows written as functions."""

from __future__ import annotations

from hitl_django.engine.graph.functional import entrypoint, task

__all__ = ["entrypoint", "task"]
