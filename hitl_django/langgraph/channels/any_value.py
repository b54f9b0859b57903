"""The channel for equal writes: it stores the last write of a super-step."""

from __future__ import annotations

from hitl_django.engine.channels import AnyValue

__all__ = ["AnyValue"]
