"""The state codec: values to bytes and back, exactly, or a refusal that says where.

One format: msgpack. What msgpack has no type for travels as an extension whose code comes from a
closed table (extension_codes.py). Extensions stand beside the data, so no dict or text that a
person or a model wrote can imitate one. A class of the application is stored under the short name
that code registered it with (registered_types.py), or under its dotted name where the code of a
graph defines or names it (graph_classes.py); stored bytes never name anything to import or to call.
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from .codec import MAX_BYTES, MAX_CONTAINERS, MAX_DEPTH, Codec
from .encoded_size import (
    Extent,
    find_extent,
    has_entries,
    head_length,
    is_dict,
    split_entries,
)
from .encrypted_serializer import EncryptedSerializer
from .extension_codes import load_zone
from .graph_classes import add_code_of, find_application_class
from .key_ring import KeyRing
from .registered_types import (
    TypeCodec,
    adopt_model,
    has_recipe,
    register_model,
    register_type,
)
from .serializer_codec import SerializerCodec, find_codec
from .serializer_protocols import (
    CipherProtocol,
    SerializerCompat,
    SerializerProtocol,
    UntypedSerializerProtocol,
    maybe_add_typed_methods,
)
from .standard_types import load_array
from .typed_serializer import JsonPlusSerializer

__all__ = [
    "MAX_BYTES",
    "MAX_CONTAINERS",
    "MAX_DEPTH",
    "CipherProtocol",
    "Codec",
    "EncryptedSerializer",
    "Extent",
    "JsonPlusSerializer",
    "KeyRing",
    "SerializerCodec",
    "SerializerCompat",
    "SerializerProtocol",
    "TypeCodec",
    "UntypedSerializerProtocol",
    "add_code_of",
    "adopt_model",
    "digest",
    "digest_parts",
    "find_application_class",
    "find_codec",
    "find_extent",
    "has_entries",
    "has_recipe",
    "head_length",
    "is_dict",
    "load_array",
    "load_zone",
    "maybe_add_typed_methods",
    "register_model",
    "register_type",
    "split_entries",
]


def digest(data: bytes) -> str:
    """Return 32 hex digits that change when ``data`` is damaged; no protection from a forger."""
    return xxhash.xxh3_128_hexdigest(data)


def digest_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the same digest, of parts as of all of them together, as bytes."""
    whole = xxhash.xxh3_128()
    for part in parts:
        whole.update(part)
    return whole.digest()
