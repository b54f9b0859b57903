"""The default serializer of stored values."""

from __future__ import annotations

from hitl_django.engine.serde import JsonPlusSerializer, SerializerProtocol

__all__ = ["JsonPlusSerializer", "SerializerProtocol"]
