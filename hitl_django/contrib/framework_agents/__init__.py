"""Common code of the adapters for other agent frameworks: the graph that runs an agent.

An adapter subclasses ``FrameworkAgent`` for the agents of one framework.
"""

from __future__ import annotations

from .agent_graph import register_framework_agent
from .framework_agent import AgentTurn, FrameworkAgent, build_model_message, build_tool_message
from .model_calls import ModelCalls
from .tool_requests import APPROVAL, REPLY, ToolDecision, ToolRequest

__all__ = [
    "APPROVAL",
    "REPLY",
    "AgentTurn",
    "FrameworkAgent",
    "ModelCalls",
    "ToolDecision",
    "ToolRequest",
    "build_model_message",
    "build_tool_message",
    "register_framework_agent",
]
