"""An adapter that makes a codec of a custom serializer."""

from __future__ import annotations

from typing import Any

import ormsgpack

from ..errors import PayloadError, UnserializableError
from .codec import Codec
from .serializer_protocols import SerializerProtocol, maybe_add_typed_methods
from .typed_serializer import JsonPlusSerializer


class SerializerCodec:
    """A codec that calls a serializer.

    The encoded bytes also contain the name of the encoding that the serializer returns.
    """

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde

    def encode(self, value: Any) -> bytes:
        """Return the bytes of ``value``, including the name of the serializer's encoding.

        Raises:
            UnserializableError: the serializer raised an error.
        """
        try:
            kind, data = self.serde.dumps_typed(value)
        except PayloadError:
            raise
        except Exception as fault:
            raise UnserializableError(
                f"Can't store $: {type(self.serde).__name__} raised {type(fault).__name__}.",
                "$",
            ) from fault
        return ormsgpack.packb([kind, bytes(data)])

    def decode(self, data: bytes) -> Any:
        """Return the value encoded in ``data``."""
        kind, stored = ormsgpack.unpackb(data)
        return self.serde.loads_typed((kind, stored))


def find_codec(serde: Any) -> Codec | SerializerCodec:
    """Return ``serde`` if it is a codec. Otherwise, return an adapter that makes it a codec."""
    cls = type(serde)
    if isinstance(serde, Codec) and (
        not isinstance(serde, JsonPlusSerializer)
        or (cls.dumps_typed, cls.loads_typed)
        == (JsonPlusSerializer.dumps_typed, JsonPlusSerializer.loads_typed)
    ):
        return serde
    return SerializerCodec(maybe_add_typed_methods(serde))
