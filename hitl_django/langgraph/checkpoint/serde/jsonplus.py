"""The serializer of state."""

from __future__ import annotations

from hitl_django.engine.serde import JsonPlusSerializer

__all__ = ["JsonPlusSerializer"]
