"""The reducer channel."""

from __future__ import annotations

from hitl_django.engine.channels import BinaryOperatorAggregate

__all__ = ["BinaryOperatorAggregate"]
