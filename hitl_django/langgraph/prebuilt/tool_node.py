"""A node that runs tool calls."""

from __future__ import annotations

from hitl_django.engine.tools import (
    InjectedState,
    InjectedStore,
    ToolNode,
    ToolRuntime,
    tools_condition,
)

__all__ = ["InjectedState", "InjectedStore", "ToolNode", "ToolRuntime", "tools_condition"]
