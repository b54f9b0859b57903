"""Adapter for agents of Pydantic AI.

Only this package imports pydantic_ai.
"""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("pydantic-ai"):
    from .agent_registration import register_agent

__all__ = ["register_agent"]
