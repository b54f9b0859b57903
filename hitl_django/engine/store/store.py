"""The interface of a store: a method for batches, and a method for each operation."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .items import Item, SearchItem
from .namespaces import check_labels, check_namespace
from .operations import (
    GetOp,
    Index,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    Op,
    PutOp,
    Result,
    SearchOp,
    check_value,
)
from .ttl import NOT_PROVIDED, NotProvided, TTLConfig, choose_refresh, choose_ttl

Path = Sequence[str]


class BaseStore(ABC):
    """Base class of stores. Subclasses implement ``batch``.

    By default, ``abatch`` runs ``batch`` on an OS thread. A store with async I/O overrides
    ``abatch``.
    """

    #: Whether items may have a time to live.
    supports_ttl = False
    #: Default times to live.
    ttl_config: TTLConfig | None = None

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations, and return their results in order.

        Reads return the state before the batch. If a batch contains several values for one key, the
        last value is stored.
        """

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async variant of batch."""
        return await asyncio.to_thread(self.batch, ops)

    def _perform_one(self, op: Op) -> Any:
        return self.batch([op])[0]

    async def _aperform_one(self, op: Op) -> Any:
        return (await self.abatch([op]))[0]

    def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return an item, or None if it doesn't exist or has expired.

        ``refresh_ttl`` determines whether reading the item restarts its time to live.
        """
        item: Item | None = self._perform_one(_get(self, namespace, key, refresh_ttl))
        return item

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Return items of a namespace and the namespaces below it.

        ``filter`` maps names of fields to required values, such as ``{"city": "Bonn"}``. A dict is
        a filter for the fields of a nested dict, or contains operators, such as
        ``{"age": {"$gte": 18}}``. The operators are ``$eq $ne $gt $gte $lt $lte``. In a store with
        a search index, ``query`` ranks items by meaning. A store without a search index ignores
        ``query``.
        """
        op = _search(self, namespace_prefix, query, filter, limit, offset, refresh_ttl)
        found: list[SearchItem] = self._perform_one(op)
        return found

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Index = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store a dict under a key. An existing item is replaced, or deleted if ``value`` is None.

        ``index`` are the fields to embed. ``ttl`` is the time to live in minutes.
        """
        self._perform_one(_put(self, namespace, key, value, index, ttl))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete an item, if it exists."""
        self._perform_one(PutOp(check_labels(namespace), str(key), None))

    def list_namespaces(
        self,
        *,
        prefix: Path | None = None,
        suffix: Path | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Return the namespaces that contain items, sorted.

        ``max_depth`` is the maximum number of labels. Longer namespaces are shortened.
        """
        op = _list(prefix, suffix, max_depth, limit, offset)
        names: list[Namespace] = self._perform_one(op)
        return names

    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Async variant of get."""
        item: Item | None = await self._aperform_one(_get(self, namespace, key, refresh_ttl))
        return item

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Async variant of search."""
        op = _search(self, namespace_prefix, query, filter, limit, offset, refresh_ttl)
        found: list[SearchItem] = await self._aperform_one(op)
        return found

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Index = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Async variant of put."""
        await self._aperform_one(_put(self, namespace, key, value, index, ttl))

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """Async variant of delete."""
        await self._aperform_one(PutOp(check_labels(namespace), str(key), None))

    async def alist_namespaces(
        self,
        *,
        prefix: Path | None = None,
        suffix: Path | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Async variant of list_namespaces."""
        op = _list(prefix, suffix, max_depth, limit, offset)
        names: list[Namespace] = await self._aperform_one(op)
        return names


def _get(store: BaseStore, namespace: Namespace, key: str, refresh: bool | None) -> GetOp:
    return GetOp(check_labels(namespace), str(key), choose_refresh(store.ttl_config, refresh))


def _search(
    store: BaseStore,
    prefix: Namespace,
    query: str | None,
    filter: dict[str, Any] | None,
    limit: int,
    offset: int,
    refresh: bool | None,
) -> SearchOp:
    refreshed = choose_refresh(store.ttl_config, refresh)
    return SearchOp(check_labels(prefix), filter, limit, offset, query, refreshed)


def _put(
    store: BaseStore,
    namespace: Namespace,
    key: str,
    value: Any,
    index: Index,
    ttl: float | NotProvided | None,
) -> PutOp:
    checked = check_namespace(namespace)
    check_value(value)
    if not (ttl is None or ttl is NOT_PROVIDED or store.supports_ttl):
        raise NotImplementedError(f"TTL is not supported by {type(store).__name__}.")
    return PutOp(checked, str(key), value, index, choose_ttl(store.ttl_config, ttl))


def _list(
    prefix: Path | None, suffix: Path | None, max_depth: int | None, limit: int, offset: int
) -> ListNamespacesOp:
    conditions = []
    if prefix:
        conditions.append(MatchCondition("prefix", check_labels(prefix)))
    if suffix:
        conditions.append(MatchCondition("suffix", check_labels(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)
