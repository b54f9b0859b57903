"""State values that the run computes."""

from __future__ import annotations

from hitl_django.engine.state.schema import IsLastStep, RemainingSteps

__all__ = ["IsLastStep", "RemainingSteps"]
