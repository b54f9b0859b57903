"""State values that the engine computes, such as the number of remaining steps."""

from __future__ import annotations

from hitl_django.engine.state.schema import IsLastStep, RemainingSteps

__all__ = ["IsLastStep", "RemainingSteps"]
