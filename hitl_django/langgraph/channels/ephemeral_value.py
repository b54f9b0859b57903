"""The channel that keeps a value for one super-step."""

from __future__ import annotations

from hitl_django.engine.channels import EphemeralValue

__all__ = ["EphemeralValue"]
