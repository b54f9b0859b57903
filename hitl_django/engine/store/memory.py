"""The store that keeps items in this process: for tests, and for what may be forgotten."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any

from .items import Item, SearchItem
from .operations import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    Op,
    PutOp,
    Result,
    SearchOp,
)
from .store import BaseStore

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _now() -> datetime:
    return datetime.now(UTC)


class _Held:
    """One item as kept, how long it lives, and until when."""

    __slots__ = ("expires", "item", "ttl")

    def __init__(self, item: Item, ttl: timedelta | None, now: datetime) -> None:
        self.item, self.ttl = item, ttl
        self.expires: datetime | None = None
        self.refresh(now)

    def refresh(self, now: datetime) -> None:
        if self.ttl is not None:
            self.expires = now + self.ttl


class InMemoryStore(BaseStore):
    """Keeps items in this process; what is read is a copy.

    It has no embeddings: a search finds by namespace and filter, in the order of storing. An item
    with a ``ttl`` is gone that many minutes after it was stored or last read. ``clock`` tells the
    time.
    """

    supports_ttl = True

    def __init__(self, *, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._spaces: dict[Namespace, dict[str, _Held]] = {}
        self._lock = RLock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        with self._lock:
            now = self._clock()
            results = [self._read(op, now) for op in ops]
            for op in ops:
                if isinstance(op, PutOp):
                    self._write(op, now)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)

    def _read(self, op: Op, now: datetime) -> Result:
        if isinstance(op, GetOp):
            held = self._alive(op.namespace, now).get(op.key)
            return None if held is None else _copied(held, op.refresh_ttl, now)
        if isinstance(op, SearchOp):
            return self._search(op, now)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op, now)
        return None

    def _alive(self, namespace: Namespace, now: datetime) -> dict[str, _Held]:
        """Returns what a namespace holds, without what has expired."""
        space = self._spaces.get(namespace, {})
        for key in [k for k, held in space.items() if held.expires and held.expires <= now]:
            del space[key]
        return space

    def _search(self, op: SearchOp, now: datetime) -> list[SearchItem]:
        depth = len(op.namespace_prefix)
        found = [
            held
            for namespace in list(self._spaces)
            if namespace[:depth] == op.namespace_prefix
            for held in self._alive(namespace, now).values()
            if all(_fits(held.item.value.get(k), v) for k, v in (op.filter or {}).items())
        ]
        chosen = [_copied(h, op.refresh_ttl, now) for h in found[op.offset : op.offset + op.limit]]
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at)
            for item in chosen
        ]

    def _namespaces(self, op: ListNamespacesOp, now: datetime) -> list[Namespace]:
        names = {
            namespace[: op.max_depth]
            for namespace in list(self._spaces)
            if self._alive(namespace, now)
            and all(_matches(namespace, condition) for condition in op.match_conditions or ())
        }
        return sorted(names)[op.offset : op.offset + op.limit]

    def _write(self, op: PutOp, now: datetime) -> None:
        space = self._alive(op.namespace, now)
        if op.value is None:
            space.pop(op.key, None)
            if not space:
                self._spaces.pop(op.namespace, None)
            return
        before = space.get(op.key)
        item = Item(
            value=deepcopy(dict(op.value)),
            key=op.key,
            namespace=op.namespace,
            created_at=now if before is None else before.item.created_at,
            updated_at=now,
        )
        ttl = None if op.ttl is None else timedelta(minutes=op.ttl)
        self._spaces.setdefault(op.namespace, {})[op.key] = _Held(item, ttl, now)


def _copied(held: _Held, refresh: bool, now: datetime) -> Item:
    if refresh:
        held.refresh(now)
    return deepcopy(held.item)


def _fits(found: Any, wanted: Any) -> bool:
    """Returns whether a field has the value, the fields, or the relation that a filter wants."""
    if not isinstance(wanted, Mapping):
        return bool(found == wanted)
    if not any(str(key).startswith("$") for key in wanted):
        return isinstance(found, Mapping) and all(_fits(found.get(k), v) for k, v in wanted.items())
    for name, bound in wanted.items():
        if name not in _COMPARISONS:
            raise ValueError(f"Unsupported operator: {name}")
        try:
            if not _COMPARISONS[name](found, bound):
                return False
        except TypeError:
            return False  # the two can't be put in an order
    return True


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path: Sequence[str] = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
