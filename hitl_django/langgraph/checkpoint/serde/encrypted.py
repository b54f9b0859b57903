"""A serializer that encrypts values."""

from __future__ import annotations

from hitl_django.engine.serde import (
    CipherProtocol,
    EncryptedSerializer,
    JsonPlusSerializer,
    SerializerProtocol,
)

__all__ = ["CipherProtocol", "EncryptedSerializer", "JsonPlusSerializer", "SerializerProtocol"]
