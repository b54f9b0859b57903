"""A store in memory, for tests and temporary data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import islice
from threading import RLock

from .filters import fits_filter
from .indexed_store import IndexedStore
from .items import Item, SearchItem
from .namespaces import list_matching
from .operations import (
    GetOp,
    ListNamespacesOp,
    Namespace,
    Op,
    PutOp,
    Result,
    SearchOp,
    select_puts,
)
from .ranking import Vector, rank_candidates
from .search_index import EmbeddedTexts, IndexConfig
from .ttl import TTLConfig, read_ttl


def _now() -> datetime:
    return datetime.now(UTC)


class _StoredItem:
    __slots__ = ("expires", "item", "ttl", "vectors")

    def __init__(
        self, item: Item, vectors: Sequence[Vector], ttl: timedelta | None, now: datetime
    ) -> None:
        self.item, self.vectors, self.ttl = item, vectors, ttl
        self.expires: datetime | None = None
        self.refresh(now)

    def refresh(self, now: datetime) -> None:
        if self.ttl is not None:
            self.expires = now + self.ttl


class InMemoryStore(IndexedStore):
    """A store in memory. Items are copied when they are read and written."""

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        super().__init__(index, ttl)
        self._clock = clock
        self._spaces: dict[Namespace, dict[str, _StoredItem]] = {}
        self._lock = RLock()

    def sweep_ttl(self) -> int:
        """Delete the expired items, and return their number."""
        with self._lock:
            now = self._clock()
            before = sum(map(len, self._spaces.values()))
            left = {namespace: self._get_unexpired(namespace, now) for namespace in self._spaces}
            self._spaces = {namespace: space for namespace, space in left.items() if space}
            return before - sum(map(len, self._spaces.values()))

    def perform(self, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
        with self._lock:
            now = self._clock()
            results = [self._read(op, embedded, now) for op in ops]
            for op in select_puts(ops).values():
                self._write(op, embedded, now)
        return results

    async def aperform(self, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
        return self.perform(ops, embedded)

    def _read(self, op: Op, embedded: EmbeddedTexts, now: datetime) -> Result:
        if isinstance(op, GetOp):
            entry = self._get_unexpired(op.namespace, now).get(op.key)
            return None if entry is None else _copied(entry, op.refresh_ttl, now)
        if isinstance(op, SearchOp):
            return self._search(op, embedded, now)
        if isinstance(op, ListNamespacesOp):
            return list_matching(
                (name for name in self._spaces if self._get_unexpired(name, now)), op
            )
        return None

    def _get_unexpired(self, namespace: Namespace, now: datetime) -> dict[str, _StoredItem]:
        space = self._spaces.get(namespace, {})
        for key in [k for k, entry in space.items() if entry.expires and entry.expires <= now]:
            del space[key]
        return space

    def _search(self, op: SearchOp, embedded: EmbeddedTexts, now: datetime) -> list[SearchItem]:
        found, end = self._find(op, now), op.offset + op.limit
        query = embedded.find_query(op)
        ranked: list[tuple[_StoredItem, float | None]]
        if query is not None:
            ranked = rank_candidates(query, ((entry, entry.vectors) for entry in found))
        else:
            # A negative limit or offset counts from the end, so all items are needed.
            is_page = min(op.offset, op.limit) >= 0
            ranked = [(entry, None) for entry in islice(found, end if is_page else None)]
        return [
            _as_found(_copied(entry, op.refresh_ttl, now), score)
            for entry, score in ranked[op.offset : end]
        ]

    def _find(self, op: SearchOp, now: datetime) -> Iterator[_StoredItem]:
        depth = len(op.namespace_prefix)
        for namespace in self._spaces:
            if namespace[:depth] == op.namespace_prefix:
                for entry in self._get_unexpired(namespace, now).values():
                    if fits_filter(entry.item.value, op.filter):
                        yield entry

    def _write(self, op: PutOp, embedded: EmbeddedTexts, now: datetime) -> None:
        space = self._get_unexpired(op.namespace, now)
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
        entry = _StoredItem(item, self._find_vectors(op, embedded), read_ttl(op.ttl), now)
        self._spaces.setdefault(op.namespace, {})[op.key] = entry


def _copied(entry: _StoredItem, refresh: bool, now: datetime) -> Item:
    if refresh:
        entry.refresh(now)
    return deepcopy(entry.item)


def _as_found(item: Item, score: float | None) -> SearchItem:
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
