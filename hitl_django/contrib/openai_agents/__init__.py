"""Adapter for agents of OpenAI's Agents SDK.

Only this package imports the SDK's package ``agents``.
"""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("openai-agents"):
    from .agent_registration import register_agent

__all__ = ["register_agent"]
