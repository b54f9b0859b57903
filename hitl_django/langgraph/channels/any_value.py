"""The channel that stores the last write of a super-step, and assumes that all writes are equal."""

from __future__ import annotations

from hitl_django.engine.channels import AnyValue

__all__ = ["AnyValue"]
