"""The channel that applies a reducer to its value and each write."""

from __future__ import annotations

from hitl_django.engine.channels import BinaryOperatorAggregate

__all__ = ["BinaryOperatorAggregate"]
