"""The channel that combines all writes of a super-step in one call of its reducer."""

from __future__ import annotations

from hitl_django.engine.channels import DeltaChannel

__all__ = ["DeltaChannel"]
