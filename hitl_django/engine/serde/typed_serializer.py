"""The codec in the form of LangGraph's serializers: a type name beside the bytes."""

from __future__ import annotations

from typing import Any

from ..errors import CorruptPayloadError
from .codec import Codec


class JsonPlusSerializer(Codec):
    """A Codec with dumps_typed and loads_typed, so it serves wherever either is wanted.

    What it stores is the codec's own msgpack. There is no pickle to fall back to, and stored bytes
    never name a class to import: classes are registered, as for the Codec.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Returns the value's kind and its bytes; None and bytes go as they are."""
        if obj is None:
            return "null", b""
        if type(obj) is bytes or type(obj) is bytearray:
            return type(obj).__name__, bytes(obj)
        return "msgpack", self.encode(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Returns the value that dumps_typed was given."""
        kind, stored = data
        if kind == "null":
            return None
        if kind == "bytes":
            return bytes(stored)
        if kind == "bytearray":
            return bytearray(stored)
        if kind == "msgpack":
            return self.decode(stored)
        raise CorruptPayloadError(f"A stored payload is of the unknown kind {kind!r}.")
