"""The codec, which encodes values with ormsgpack, and its extensions and limits.

If ormsgpack alone can't encode a value, ``strict_walk`` traverses the value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn

import ormsgpack
from ormsgpack import Ext, Fragment, packb, unpackb

from ..bridges import find_bridge
from ..errors import (
    CorruptPayloadError,
    PayloadError,
    PayloadLimitError,
    UnknownTagError,
    UnserializableError,
)
from .encoded_size import (
    LONGEST_HEAD,
    Extent,
    count_possible_containers,
    head_length,
    measure,
)
from .extension_codes import BRANCHES, LEAVES, LOAD_BRANCH, LOAD_LEAF, OBJECT, UNORDERED, Tagged
from .graph_classes import find_graph_class, is_graph_class
from .lossy_types import are_numbers, holds_buffer
from .plain_base import NOT_PLAIN, as_plain
from .registered_types import REGISTERED, TypeCodec, TypeTable, adopt_model, has_recipe
from .standard_types import find_by_class, find_by_tag
from .strict_walk import rewrite_value

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 255  # The limit of ormsgpack for encoding and decoding.
# An encoded container may take one byte, but uses about 64 bytes in memory.
MAX_CONTAINERS = 1_000_000

# Extensions are encoded recursively, and each uses a native stack of up to MAX_DEPTH levels. Deeper
# nesting of extensions than this is measured first.
_FREE_LEVELS = 4

#: Bytes of entries that are encoded at a time when the entries are only compared.
AT_A_TIME = 1 << 18

# Types that ormsgpack would by default encode as another type.
_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)


# Header bytes that are complete values. ormsgpack ignores trailing bytes. A pickle, whose first
# byte is one of these, would therefore decode as an empty dict.
_ALONE = frozenset({*range(0x81), 0x90, 0xA0, 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)})

#: Packages with a bridge that registers their classes. Tags of these classes start with the package
#: name.
_BRIDGED = frozenset({"langchain_core", "langgraph"})


class _TooManyLevels(Exception):
    """A signal that extensions are nested deeply, so that the depth must be measured first."""


class Codec:
    """A lossless encoder and decoder of values.

    ``types`` are supported in addition to the types of ``register_type``. ``max_bytes`` and
    ``max_containers`` (lists, dicts and msgpack extensions) limit encoding and decoding.
    ``max_depth`` limits the number of nested containers. With the default MAX_DEPTH, a value with
    nested extensions can exceed the limit, because counting restarts in each extension. With a
    smaller ``max_depth``, the limit is exact.
    """

    def __init__(
        self,
        *,
        types: Iterable[TypeCodec] = (),
        max_bytes: int = MAX_BYTES,
        max_depth: int = MAX_DEPTH,
        max_containers: int = MAX_CONTAINERS,
    ) -> None:
        if not 0 < max_depth <= MAX_DEPTH:
            raise ValueError(f"max_depth must be from 1 to {MAX_DEPTH}.")
        self.max_bytes, self.max_depth = max_bytes, max_depth
        self.max_containers = max_containers
        self._types = TypeTable()
        for entry in types:
            self._types.add(entry)
        # n bytes contain at most n containers and n levels, so a smaller value needs no measuring.
        self._free_bytes = min(max_bytes, max_containers)
        if max_depth < MAX_DEPTH:
            self._free_bytes = min(self._free_bytes, max_depth)
        #: A new object after each call of a hook, to detect values that are encoded without a hook.
        self._hooked = object()
        # ormsgpack discards exceptions of a hook, so the hook stores the exceptions here.
        self._fault = threading.local()
        self._pack_hook = self._nest(self._make_pack_hook)
        self._unpack_hook = self._nest(self._make_unpack_hook)
        self._deep_pack_hook = self._make_pack_hook(None)
        self._deep_unpack_hook = self._make_unpack_hook(None)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of ``value``.

        Raises:
            UnserializableError: a part of the value can't be stored. The message contains its path.
            PayloadLimitError: the value exceeds a limit.
        """
        hooked = self._hooked
        try:
            data = packb(value, self._pack_hook, _OPTIONS)
        except TypeError:
            data = self._encode_slowly(value)
        else:
            # These bytes may be headers of bytes values. ormsgpack writes the same headers for
            # bytearray and memoryview, so the value is checked again.
            if 0xC4 in data or 0xC5 in data or 0xC6 in data:
                is_native = self._hooked is hooked
                if not (is_native and are_numbers(value)) and holds_buffer(
                    value, self._dump_object
                ):
                    data = self._encode_slowly(value)
        if len(data) > self._free_bytes:
            self._check_limits(data)
        return data

    def encode_record(self, value: Any) -> bytes:
        """Encode an internal record, which must not contain a bytearray or memoryview.

        ``encode`` searches a value for these two types if the encoded bytes contain a byte that
        could be the header of a bytes value. Random bytes, such as ids, usually contain such a
        byte. For records with ids, this method is therefore faster than ``encode``.
        """
        try:
            data = packb(value, self._pack_hook, _OPTIONS)
        except TypeError:
            data = self._encode_slowly(value)
        if len(data) > self._free_bytes:
            self._check_limits(data)
        return data

    def encode_entries(self, value: Any, size: int) -> Iterator[memoryview]:
        """Yield the encoded entries of a list or dict.

        ``size`` is the approximate number of bytes of the whole value. The value must not contain a
        bytearray or memoryview. Entries are encoded in batches, because reusing a small buffer is
        faster than allocating memory for all entries.
        """
        kind = type(value)
        entries = iter(value.items() if kind is dict else value)
        few = max(1, len(value) * AT_A_TIME // (size + 1))
        while part := kind(islice(entries, few)):
            data = self.encode_record(part)
            yield memoryview(data)[head_length(data) :]

    def is_within_limits(self, extent: Extent) -> bool:
        """Return whether a list or dict with this extent is certainly within the codec's limits.

        An extent doesn't contain the nesting depth. If ``max_depth`` is less than MAX_DEPTH, the
        result is therefore False. If ``max_depth`` is MAX_DEPTH, the depth is not checked here,
        because the encoding of the entries checks the depth.
        """
        return (
            extent.size + LONGEST_HEAD <= self.max_bytes
            and extent.containers <= self.max_containers
            and self.max_depth == MAX_DEPTH
        )

    def decode(self, data: bytes | bytearray | memoryview) -> Any:
        """Return the value encoded in ``data``.

        If damaged bytes are still valid msgpack, only a digest can detect the damage.

        Raises:
            UnknownTagError: a type is no longer registered.
            CorruptPayloadError: the bytes are damaged.
            PayloadLimitError: the value exceeds a limit.
        """
        if type(data) is not bytes:
            data = _as_bytes(data)
        if len(data) > self._free_bytes:
            self._check_limits(data)
        if len(data) > 1 and data[0] in _ALONE:
            raise CorruptPayloadError("Stored payload is corrupt (trailing bytes).")
        try:
            return unpackb(data, ext_hook=self._unpack_hook)
        except ValueError as error:
            fault = self._take_fault()
            if isinstance(fault, _TooManyLevels):
                return self._decode_deep(data)
            self._refuse(fault or error)

    def check_together(self, parts: Sequence[bytes]) -> None:
        """Raise PayloadLimitError if the joined parts exceed the limits of the codec."""
        if sum(map(len, parts)) > self._free_bytes:
            self._check_limits(b"".join(parts))

    def _encode_slowly(self, value: Any) -> bytes:
        fault = self._take_fault()
        if fault is not None and not isinstance(fault, Exception):
            # The error is a signal that arrived during a hook, not an error in the value.
            raise fault
        tree = rewrite_value(value, self._dump_object, self.max_depth)
        try:
            return packb(tree, self._pack_hook, _OPTIONS)
        except TypeError as error:
            fault = self._take_fault()
            if isinstance(fault, _TooManyLevels):
                return self._encode_deep(tree)
            raise UnserializableError(f"Can't store $: {fault or error}.", "$") from fault

    def _encode_deep(self, tree: Any) -> bytes:
        data = packb(tree, self._deep_pack_hook, _OPTIONS)
        depth = measure(data).depth
        if depth > self.max_depth:
            raise self._depth_error(depth)
        return data

    def _make_pack_hook(self, deeper: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        by_class, own = REGISTERED.by_class, self._types.by_class

        def hook(value: Any) -> Any:
            self._hooked = object()
            try:
                cls = type(value)
                entry = by_class.get(cls)
                if entry is not None and cls not in own:
                    # This case comes first, because messages of a conversation are the most
                    # frequent values.
                    body = [entry.tag, entry.dump(value)]
                    return Ext(OBJECT, packb(body, deeper or hook, _OPTIONS))
                if cls in BRANCHES:
                    code, parts = BRANCHES[cls]
                    body = parts(value)
                elif cls in LEAVES:
                    code, dump = LEAVES[cls]
                    body = dump(value)
                    if type(body) is not Tagged:
                        return Ext(code, body)
                    code, body = body.code, body.body
                else:
                    tagged = self._tag(value)
                    if type(tagged) is not Tagged:
                        return tagged
                    code, body = tagged.code, tagged.body
                    if type(body) is bytes:
                        return Ext(code, body)
                inner = deeper or hook
                if code in UNORDERED:
                    body = sorted(packb(item, inner, _OPTIONS) for item in body)
                    body = [Fragment(item) for item in body]
                return Ext(code, packb(body, inner, _OPTIONS))
            except BaseException as fault:
                self._keep_fault(fault)
                raise

        return hook

    def _tag(self, value: Any) -> Any:
        """Return an object in a form that can be encoded.

        If the object's class has a type codec, return a ``Tagged`` object with the result of the
        type codec. Otherwise, return the object converted to its base type, for example str.

        Raises:
            TypeError: the class has neither a type codec nor a supported base type.
        """
        if type(value) is Tagged:
            return value
        dumped = self._dump_object(value)
        if dumped is not None:
            return Tagged(OBJECT, list(dumped))
        plain = as_plain(value)
        if plain is NOT_PLAIN:
            raise TypeError(f"{type(value).__qualname__} is not registered")
        return plain

    def _dump_object(self, value: Any) -> tuple[str, Any] | None:
        cls = type(value)
        entry = (
            self._types.by_class.get(cls)
            or REGISTERED.by_class.get(cls)
            or self._find_by_class(cls)
        )
        return None if entry is None else (entry.tag, entry.dump(value))

    def _make_unpack_hook(self, deeper: Callable[..., Any] | None) -> Callable[..., Any]:
        def hook(code: int, data: bytes) -> Any:
            try:
                if (load_leaf := LOAD_LEAF.get(code)) is not None:
                    return load_leaf(data)
                load = self._load_object if code == OBJECT else LOAD_BRANCH.get(code)
                if load is None:
                    raise UnknownTagError(f"Unknown extension code in stored bytes: {code}.")
                return load(unpackb(data, ext_hook=deeper or hook))
            except BaseException as fault:
                self._keep_fault(fault)
                raise

        return hook

    def _load_object(self, body: Any) -> Any:
        tag, dumped = body
        entry = self._types.by_tag.get(tag) or REGISTERED.by_tag.get(tag) or self._find_by_tag(tag)
        if entry is None:
            raise UnknownTagError(
                f"Stored bytes contain a {str(tag)[:64]!r}, but no type is registered "
                "under that name. Classes from a graph's code are registered when the "
                "graph is built."
            )
        return entry.load(dumped)

    # The methods below handle classes without an explicit registration.

    def _find_by_class(self, cls: type) -> TypeCodec | None:
        found = find_by_class(cls)
        if found is not None:
            return found
        if (package := cls.__module__.partition(".")[0]) in _BRIDGED:
            find_bridge(package)
        elif has_recipe(cls) and is_graph_class(cls):
            adopt_model(cls)
        return REGISTERED.by_class.get(cls)

    def _find_by_tag(self, tag: Any) -> TypeCodec | None:
        if not isinstance(tag, str):
            return None
        if tag.startswith("@"):
            return find_by_tag(tag)
        if (package := tag.partition(".")[0]) in _BRIDGED:
            find_bridge(package)
        elif (cls := find_graph_class(tag)) is not None:
            adopt_model(cls)
        return REGISTERED.by_tag.get(tag)

    def _decode_deep(self, data: bytes) -> Any:
        try:
            depth = measure(data).depth
            if depth > self.max_depth:
                raise self._depth_error(depth)
            return unpackb(data, ext_hook=self._deep_unpack_hook)
        except ValueError as error:
            self._refuse(self._take_fault() or error)

    def _refuse(self, fault: BaseException) -> NoReturn:
        if isinstance(fault, PayloadError | MemoryError) or not isinstance(fault, Exception):
            raise fault
        if isinstance(fault, RecursionError) or "ecursion limit" in str(fault):
            raise self._depth_error(self.max_depth + 1) from None
        raise CorruptPayloadError(
            f"Stored payload is corrupt ({type(fault).__name__} while decoding)."
        ) from fault

    def _nest(self, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
        def stop(*_: Any) -> NoReturn:
            self._keep_fault(fault := _TooManyLevels())
            raise fault

        hook: Callable[..., Any] = stop
        for _ in range(_FREE_LEVELS):
            hook = make(hook)
        return hook

    def _keep_fault(self, fault: BaseException) -> None:
        # Only the innermost hook receives the original error, so the first error is kept.
        if getattr(self._fault, "first", None) is None:
            self._fault.first = fault

    def _take_fault(self) -> BaseException | None:
        fault: BaseException | None = getattr(self._fault, "first", None)
        self._fault.first = None
        return fault

    def _check_limits(self, data: bytes) -> None:
        if len(data) > self.max_bytes:
            raise PayloadLimitError(
                f"The value is {len(data)} bytes; the limit is {self.max_bytes}.",
                limit=self.max_bytes,
                found=len(data),
            )
        if self.max_depth == MAX_DEPTH and count_possible_containers(data) <= self.max_containers:
            return
        try:
            size = measure(data, self.max_containers)
        except ValueError as error:
            self._refuse(error)
        if size.depth > self.max_depth:
            raise self._depth_error(size.depth)
        if size.containers > self.max_containers:
            raise PayloadLimitError(
                "The value has too many lists, dicts and tagged values; "
                f"the limit is {self.max_containers}.",
                limit=self.max_containers,
                found=size.containers,
            )

    def _depth_error(self, found: int) -> PayloadLimitError:
        return PayloadLimitError(
            f"The value is nested deeper than {self.max_depth} levels.",
            limit=self.max_depth,
            found=found,
        )


def _as_bytes(data: Any) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise CorruptPayloadError(f"Stored payload must be bytes, not {type(data).__qualname__}.")
