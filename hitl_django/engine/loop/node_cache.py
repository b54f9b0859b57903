"""Results of nodes that are used again for the same input: the cache, its keys, what goes in."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_hexdigest

from ..errors import PayloadError, UnserializableError, annotate
from ..serde import Codec
from ..task.nodes import Node
from . import stream_modes
from .effects import Effects, Emit, Keep, Recall
from .plan import Task

if TYPE_CHECKING:
    from .loop import Loop

logger = logging.getLogger("hitl_django")

#: The function's module and name, and the node's name; what is cached belongs to both.
Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]

_WRITES = "__pregel_ns_writes"
_ENCODE = Codec().encode


class BaseCache:
    """Keeps what nodes wrote: subclass it and implement get, set and clear.

    ``serde`` turns values into bytes and back.
    """

    def __init__(self, *, serde: Codec | None = None) -> None:
        self.serde = serde or Codec()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """Returns what is kept and still good of ``keys``."""
        raise NotImplementedError

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Keeps values, each for its number of seconds (None: for ever)."""
        raise NotImplementedError

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Drops what is kept of ``namespaces``, or all."""
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


class InMemoryCache(BaseCache):
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

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        now = time.monotonic()
        encoded = [
            (key, self.serde.encode(value), None if ttl is None else now + ttl)
            for key, (value, ttl) in pairs.items()
        ]
        with self._lock:
            for (namespace, key), data, until in encoded:
                self._kept.setdefault(namespace, {})[key] = (data, until)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._kept.clear()
                return
            for namespace in namespaces:
                self._kept.pop(namespace, None)


def namespace_of(name: str, node: Node) -> Namespace:
    """Returns where the results of a node are kept."""
    source = getattr(node.action, "source", None)
    named = getattr(source, "__qualname__", None)
    identity = f"{source.__module__}.{named}" if named else "__dynamic__"
    return (_WRITES, identity, name)


def namespaces(nodes: Mapping[str, Node], names: Iterable[str] | None) -> list[Namespace]:
    """Returns the namespaces of the named nodes, or of all."""
    wanted = nodes if names is None else [name for name in names if name in nodes]
    return [namespace_of(name, nodes[name]) for name in wanted]


def key_of(task: Task) -> FullKey:
    """Works out under which key a task's result is kept.

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
                f"The input of node '{task.name}' makes no cache key: {error} Give its "
                "CachePolicy a key_func.",
                error.path,
            ) from error
    if not isinstance(made, (str, bytes)):
        raise TypeError(
            f"The cache key of node '{task.name}' has to be str or bytes, not "
            f"{type(made).__name__}."
        )
    return namespace_of(task.name, task.node), xxh3_128_hexdigest(
        made.encode() if isinstance(made, str) else made
    )


class Recaller:
    """What one run takes from the cache, and what it leaves there."""

    __slots__ = ("keys",)

    def __init__(self) -> None:
        #: The keys of the tasks that are running, by task id.
        self.keys: dict[str, FullKey] = {}

    def recall(self, loop: Loop, tasks: Sequence[Task]) -> Generator[Any, Any, list[Task]]:
        """Gives tasks what is kept for their input; returns those that have to run."""
        self.keys = {}
        for task in tasks:
            if task.node.cache is None or depends_on_people(loop, task):
                continue
            try:
                self.keys[task.id] = key_of(task)
            except Exception as error:
                annotate(error, f"Before task with name '{task.name}' and path '{task.path}'")
                task.error = error
                return list(tasks)
        if not self.keys:
            return list(tasks)
        found: dict[FullKey, Any] = yield Recall(list(self.keys.values()))
        left = []
        for task in tasks:
            writes = found.get(self.keys.get(task.id, ((), "")))
            if writes is None:
                left.append(task)
                continue
            del self.keys[task.id]
            task.writes = [(name, value) for name, value in writes]
            yield from _tell(loop, task)
        return left

    def keep(self, ended: Sequence[Task]) -> Effects:
        """Keeps what tasks wrote that neither failed nor asked."""
        for task in ended:
            policy = task.node.cache
            if policy is None or not task.writes or task.id not in self.keys:
                continue
            try:
                yield Keep({self.keys[task.id]: (list(task.writes), policy.ttl)})
            except PayloadError as error:
                # Whether that is a fault is for the saver to say: a run without one goes on.
                logger.warning("What node %s returned can't be cached: %s", task.name, error)


def depends_on_people(loop: Loop, task: Task) -> bool:
    """Tells whether a task was answered, or may be about to be.

    What a person decided of one case holds for no other.
    """
    status = loop.statuses.get(task.id)
    if loop.run.wildcard:
        return True
    return status is not None and bool(status.answers or status.keyed or status.interrupts)


def _tell(loop: Loop, task: Task) -> Effects:
    if loop.saver is not None:
        loop.ledger.note(task)
    if "updates" in loop.run.modes:
        update = stream_modes.updates_of_task(
            task, task.writes or (), loop.output_keys, cached=True
        )
        yield Emit([(loop.ns, "updates", update)])
