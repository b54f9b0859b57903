"""The cache of node results: its interface, the one in memory, and its keys."""

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

#: The function's module and name, and the node's name; what is cached belongs to both.
Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]

_WRITES = "__pregel_ns_writes"
_ENCODE = Codec().encode


class BaseCache(Generic[ValueT]):
    """Keeps what nodes wrote: subclass it and implement get, set and clear.

    ``serde`` turns values into bytes and back.
    """

    def __init__(self, *, serde: Codec | None = None) -> None:
        self.serde = serde or Codec()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """Return what is kept and still good of ``keys``."""
        raise NotImplementedError

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Keep values, each for its number of seconds (None: for ever)."""
        raise NotImplementedError

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Drop what is kept of ``namespaces``, or all."""
        raise NotImplementedError

    # A cache without an event loop of its own answers at once; one that blocks overrides these.

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """Like get."""
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Like set."""
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Like clear."""
        self.clear(namespaces)


class InMemoryCache(BaseCache[ValueT]):
    """Keeps results in this process; values are encoded, so each use gets a copy."""

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
    """Return where the results of a node are kept."""
    source = getattr(node.action, "source", None)
    named = getattr(source, "__qualname__", None)
    identity = f"{source.__module__}.{named}" if named else "__dynamic__"
    return (_WRITES, identity, name)


def list_cache_namespaces(
    nodes: Mapping[str, Node], names: Iterable[str] | None
) -> list[Namespace]:
    """Return the namespaces of the named nodes, or of all."""
    wanted = nodes if names is None else [name for name in names if name in nodes]
    return [build_cache_namespace(name, nodes[name]) for name in wanted]


def make_cache_key(task: Task) -> FullKey:
    """Work out under which key a task's result is kept.

    Equal inputs have equal keys, in every process: the key is a hash of the input's bytes, in
    which sets are sorted. Raises what the policy's own function raises, and TypeError where that
    makes neither str nor bytes.
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
