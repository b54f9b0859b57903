"""State values that the run itself computes."""

from __future__ import annotations

from hitl_django.engine.state.schema import IsLastStep, RemainingSteps

__all__ = ["IsLastStep", "RemainingSteps"]
