"""The node that runs tool calls."""

from __future__ import annotations

from hitl_django.contrib.agents import (
    AsyncToolCallWrapper,
    InjectedState,
    InjectedStore,
    ToolCallRequest,
    ToolCallWithContext,
    ToolCallWrapper,
    ToolInvocationError,
    ToolNode,
    ToolRuntime,
    tools_condition,
)

__all__ = [
    "AsyncToolCallWrapper",
    "InjectedState",
    "InjectedStore",
    "ToolCallRequest",
    "ToolCallWithContext",
    "ToolCallWrapper",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "tools_condition",
]
