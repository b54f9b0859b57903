"""The channel whose value is available for only one super-step."""

from __future__ import annotations

from hitl_django.engine.channels import EphemeralValue

__all__ = ["EphemeralValue"]
