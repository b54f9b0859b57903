"""The channel that assumes all writes of a super-step to be equal."""

from __future__ import annotations

from hitl_django.engine.channels import AnyValue

__all__ = ["AnyValue"]
