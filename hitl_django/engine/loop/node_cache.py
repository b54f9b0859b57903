"""The cache of node results: its interface, an in-memory cache, and its keys."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Generic

from xxhash import xxh3_128_hexdigest

from ..errors import UnserializableError
from ..serde import Codec
from ..task.nodes import Node
from ..task.task import Task
from ..types import ValueT

#: A prefix, the qualified name of the node's function, and the node's name.
Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]

_WRITES = "__pregel_ns_writes"
_ENCODE = Codec().encode


class BaseCache(Generic[ValueT]):
    """Base class of caches for node results.

    Subclasses implement get, set and clear. ``serde`` encodes and decodes the cached values.
    """

    def __init__(self, *, serde: Codec | None = None) -> None:
        self.serde = serde or Codec()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """Return the values of ``keys`` that are cached and not expired."""
        raise NotImplementedError

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Store values, each with its lifetime in seconds. A lifetime of None means no limit."""
        raise NotImplementedError

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Delete the values of ``namespaces``, or all values."""
        raise NotImplementedError

    # By default, an async method calls the sync method. Caches that block override the async
    # methods.

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """Async variant of get."""
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Async variant of set."""
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Async variant of clear."""
        self.clear(namespaces)


class InMemoryCache(BaseCache[ValueT]):
    """A cache in the memory of this process.

    Values are stored encoded, so each read returns a copy.
    """

    def __init__(self, *, serde: Codec | None = None) -> None:
        super().__init__(serde=serde)
        self._kept: dict[Namespace, dict[str, tuple[bytes, float | None]]] = {}
        self._lock = Lock()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        now = time.monotonic()
        found = {}
        with self._lock:
            for namespace, key in keys:
                data, until = self._kept.get(namespace, {}).get(key, (None, None))
                if data is None:
                    continue
                if until is None or now < until:
                    found[namespace, key] = data
                else:
                    del self._kept[namespace][key]
        return {key: self.serde.decode(data) for key, data in found.items()}

    def set(self, keys: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        now = time.monotonic()
        encoded = [
            (key, self.serde.encode(value), None if ttl is None else now + ttl)
            for key, (value, ttl) in keys.items()
        ]
        with self._lock:
            for (namespace, key), data, until in encoded:
                self._kept.setdefault(namespace, {})[key] = (data, until)

    async def aset(self, keys: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        self.set(keys)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._kept.clear()
                return
            for namespace in namespaces:
                self._kept.pop(namespace, None)


def build_cache_namespace(name: str, node: Node) -> Namespace:
    source = getattr(node.action, "source", None)
    named = getattr(source, "__qualname__", None)
    identity = f"{source.__module__}.{named}" if named else "__dynamic__"
    return (_WRITES, identity, name)


def list_cache_namespaces(
    nodes: Mapping[str, Node], names: Iterable[str] | None
) -> list[Namespace]:
    """Return the cache namespaces of the nodes ``names``, or of all nodes if ``names`` is None."""
    wanted = nodes if names is None else [name for name in names if name in nodes]
    return [build_cache_namespace(name, nodes[name]) for name in wanted]


def make_cache_key(task: Task) -> FullKey:
    """Return the key under which a task's result is cached.

    Equal inputs have equal keys in all processes, because the key is a hash of the encoded input
    with sorted sets. Errors of the policy's ``key_func`` are raised.

    Raises:
        TypeError: ``key_func`` returns neither str nor bytes.
        UnserializableError: the input can't be encoded.
    """
    policy = task.node.cache
    assert policy is not None
    if policy.key_func is not None:
        made = policy.key_func(task.input)
    else:
        try:
            made = _ENCODE(task.input)
        except UnserializableError as error:
            raise UnserializableError(
                f"Can't build a cache key from the input of node '{task.name}': {error} "
                "Set key_func in its CachePolicy.",
                error.path,
            ) from error
    if not isinstance(made, (str, bytes)):
        raise TypeError(
            f"The cache key of node '{task.name}' must be str or bytes, not {type(made).__name__}."
        )
    return build_cache_namespace(task.name, task.node), xxh3_128_hexdigest(
        made.encode() if isinstance(made, str) else made
    )
