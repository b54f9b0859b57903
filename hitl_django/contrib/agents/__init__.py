"""Agents: a node that runs tool calls, and a graph in which a model calls tools.

A model is an object with ``invoke``, such as a model of LangChain. If the model has tools, it also
needs ``bind_tools``. Tools are functions, or objects with a ``name`` and ``invoke``. Messages are
dicts, or objects such as LangChain's messages. The package does not need Django.
"""

from __future__ import annotations

from .agent_state import (
    AgentState,
    AgentStatePydantic,
    AgentStateWithStructuredResponse,
    AgentStateWithStructuredResponsePydantic,
)
from .injection import InjectedState, InjectedStore, InjectedToolCallId, ToolRuntime
from .invocation_error import ToolInvocationError
from .react_agent import create_react_agent
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
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",
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
    "create_react_agent",
    "tools_condition",
]
