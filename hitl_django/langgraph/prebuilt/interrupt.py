"""Types of the interrupts with which an agent asks for a review of an action."""

from __future__ import annotations

from hitl_django.contrib.agents import (
    ActionRequest,
    HumanInterrupt,
    HumanInterruptConfig,
    HumanResponse,
)

__all__ = ["ActionRequest", "HumanInterrupt", "HumanInterruptConfig", "HumanResponse"]
