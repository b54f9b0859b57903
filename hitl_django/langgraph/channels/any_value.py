"""The channel with the last written value, for equal writes in a super-step."""

from __future__ import annotations

from hitl_django.engine.channels import AnyValue

__all__ = ["AnyValue"]
