"""The reducer channel that combines the writes of a super-step in one call."""

from __future__ import annotations

from hitl_django.engine.channels import DeltaChannel

__all__ = ["DeltaChannel"]
