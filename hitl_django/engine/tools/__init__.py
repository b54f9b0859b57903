"""A node that runs the tool calls of a model, and the words agents use to ask about them.

Tools may be plain functions, or objects with a ``name`` and ``invoke`` such as langchain's;
messages may be dicts or objects such as langchain's.
"""

from __future__ import annotations

from .injection import InjectedState, InjectedStore, InjectedToolCallId, ToolRuntime
from .invocation_error import ToolInvocationError
from .review_types import ActionRequest, HumanInterrupt, HumanInterruptConfig, HumanResponse
from .tool_messages import tools_condition
from .tool_node import ToolNode
from .tool_request import (
    AsyncToolCallWrapper,
    ToolCallRequest,
    ToolCallWithContext,
    ToolCallWrapper,
)
from .validation_node import ValidationNode

__all__ = [
    "ActionRequest",
    "AsyncToolCallWrapper",
    "HumanInterrupt",
    "HumanInterruptConfig",
    "HumanResponse",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "ToolCallRequest",
    "ToolCallWithContext",
    "ToolCallWrapper",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "ValidationNode",
    "tools_condition",
]
