"""A node that runs tool calls."""

from __future__ import annotations

from hitl_django.engine.tools import ToolNode, tools_condition

__all__ = ["ToolNode", "tools_condition"]
