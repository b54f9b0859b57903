"""The channel that combines its value and each write with a reducer."""

from __future__ import annotations

from hitl_django.engine.channels import BinaryOperatorAggregate

__all__ = ["BinaryOperatorAggregate"]
