"""Agents that call tools until the model gives a final answer."""

from __future__ import annotations

from hitl_django.contrib.agents import (
    AgentState,
    AgentStatePydantic,
    AgentStateWithStructuredResponse,
    AgentStateWithStructuredResponsePydantic,
    create_react_agent,
)

#: The former name.
create_tool_calling_executor = create_react_agent

__all__ = [
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",
    "create_react_agent",
    "create_tool_calling_executor",
]
