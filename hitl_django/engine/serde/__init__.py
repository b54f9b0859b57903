"""The state codec: lossless encoding of values.

A value that can't be encoded raises an error with the path of the unsupported part. The format is
msgpack. Types that msgpack doesn't have are extensions, with codes from a fixed table
(extension_codes.py). Extensions are separate from the data, so a dict or text written by a person
or a model can't imitate one. Application classes are stored under a registered short name
(registered_types.py). Classes that a graph's code defines or imports are stored under their dotted
name (graph_classes.py). Decoding never imports or calls anything named in stored bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from .codec import MAX_BYTES, MAX_CONTAINERS, MAX_DEPTH, Codec
from .encoded_size import (
    Extent,
    count_possible_containers,
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
    "count_possible_containers",
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
    """Return a checksum of ``data`` as 32 hex digits.

    The checksum detects damage, but not forgery.
    """
    return xxhash.xxh3_128_hexdigest(data)


def digest_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the digest of the joined parts as 16 raw bytes."""
    whole = xxhash.xxh3_128()
    for part in parts:
        whole.update(part)
    return whole.digest()
