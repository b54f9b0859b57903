"""The node that validates tool calls."""

from __future__ import annotations

from hitl_django.contrib.agents import ValidationNode

__all__ = ["ValidationNode"]
