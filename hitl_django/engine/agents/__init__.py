"""Agents as graphs: a model that calls tools until it has an answer.

Models are anything with ``invoke``, and ``bind_tools`` where they have tools, such as langchain's;
messages and tools are those of the ToolNode.
"""

from __future__ import annotations

from .agent_state import (
    AgentState,
    AgentStatePydantic,
    AgentStateWithStructuredResponse,
    AgentStateWithStructuredResponsePydantic,
)
from .react_agent import create_react_agent

__all__ = [
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",
    "create_react_agent",
]
