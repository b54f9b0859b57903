"""Adapter for agents of Google's Agent Development Kit (ADK).

Only this package imports google.adk and google.genai.
"""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("google-adk"):
    from .agent_registration import register_agent

__all__ = ["register_agent"]
