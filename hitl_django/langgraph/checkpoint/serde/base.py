"""Protocols of serializers and ciphers."""

from __future__ import annotations

from hitl_django.engine.serde import (
    CipherProtocol,
    SerializerCompat,
    SerializerProtocol,
    UntypedSerializerProtocol,
    maybe_add_typed_methods,
)

__all__ = [
    "CipherProtocol",
    "SerializerCompat",
    "SerializerProtocol",
    "UntypedSerializerProtocol",
    "maybe_add_typed_methods",
]
