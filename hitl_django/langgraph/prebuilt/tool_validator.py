"""A node that checks tool calls."""

from __future__ import annotations

from hitl_django.engine.tools import ValidationNode

__all__ = ["ValidationNode"]
