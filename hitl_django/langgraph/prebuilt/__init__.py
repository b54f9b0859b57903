"""Agents, and nodes that run or validate tool calls."""

from __future__ import annotations

from hitl_django.contrib.agents import (
    InjectedState,
    InjectedStore,
    ToolNode,
    ToolRuntime,
    ValidationNode,
    create_react_agent,
    tools_condition,
)

__all__ = [
    "InjectedState",
    "InjectedStore",
    "ToolNode",
    "ToolRuntime",
    "ValidationNode",
    "create_react_agent",
    "tools_condition",
]
