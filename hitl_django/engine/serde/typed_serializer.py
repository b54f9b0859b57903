"""A codec with the interface of LangGraph's serializers, which return bytes and their encoding."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Literal

from ..errors import CorruptPayloadError
from .codec import Codec
from .registered_types import TypeCodec, has_recipe, make_type_codec, name_class

logger = logging.getLogger("hitl_django")

Allowed = Iterable[type | tuple[str, ...]] | Literal[True] | None


class JsonPlusSerializer(Codec):
    """A Codec with the methods dumps_typed and loads_typed of LangGraph's serializers.

    Values are encoded as msgpack. ``allowed_msgpack_modules`` and ``allowed_json_modules`` have the
    same meaning: each is a list of classes that may be stored in addition to registered classes. A
    class can be given as a pair of module and name. The value True, which in LangGraph allows all
    classes, allows no additional class, because names in stored bytes are never trusted. Pickle is
    not supported: ``pickle_fallback`` only logs a warning, and values of unsupported types raise an
    error.
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allowed_json_modules: Allowed = None,
        allowed_msgpack_modules: Allowed = None,
    ) -> None:
        super().__init__()
        #: Names of additional classes. The classes are registered on first use.
        self._allowed: dict[str, tuple[str, ...] | type] = {}
        for allowed in (allowed_json_modules, allowed_msgpack_modules):
            for one in () if allowed is None or allowed is True else allowed:
                self._allowed[name_class(one) if isinstance(one, type) else ".".join(one)] = one
        if pickle_fallback:
            logger.warning(
                "JsonPlusSerializer(pickle_fallback=True) is not supported: "
                "values are never pickled."
            )

    def with_msgpack_allowlist(
        self, extra_allowlist: Iterable[type | tuple[str, ...]]
    ) -> JsonPlusSerializer:
        """Return a copy of the serializer that may also store the given classes."""
        allowed = [*self._allowed.values(), *extra_allowlist]
        return JsonPlusSerializer(allowed_msgpack_modules=allowed)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the name of the encoding, and the encoded value.

        For bytes and bytearrays, the name is the type's name, and the value's bytes are unchanged.
        For None, the name is "null", and the bytes are empty.
        """
        if obj is None:
            return "null", b""
        if type(obj) is bytes or type(obj) is bytearray:
            return type(obj).__name__, bytes(obj)
        return "msgpack", self.encode(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value encoded as the pair ``data``: the name of the encoding, and bytes."""
        kind, stored = data
        if kind == "null":
            return None
        if kind == "bytes":
            return bytes(stored)
        if kind == "bytearray":
            return bytearray(stored)
        if kind == "msgpack":
            return self.decode(stored)
        raise CorruptPayloadError(f"Stored payload has the unknown type {kind!r}.")

    def _find_by_class(self, cls: type) -> TypeCodec | None:
        if name_class(cls) in self._allowed and has_recipe(cls):
            return self._register(name_class(cls), cls)
        return super()._find_by_class(cls)

    def _find_by_tag(self, tag: Any) -> TypeCodec | None:
        named = self._allowed.get(tag) if isinstance(tag, str) else None
        if named is None:
            return super()._find_by_tag(tag)
        if not isinstance(named, type):
            # The name was written by the caller and not read from stored bytes.
            *module, name = named
            named = getattr(import_module(".".join(module)), name)
        return self._register(tag, named)

    def _register(self, tag: str, cls: type) -> TypeCodec:
        entry = make_type_codec(cls, tag)
        self._types.adopt(entry)
        return entry
