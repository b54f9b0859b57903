"""The interface of a store: one batch of operations, and a method for each kind."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ..errors import InvalidNamespaceError
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

Index = Literal[False] | list[str] | None
Path = Sequence[str]


class BaseStore(ABC):
    """Keeps items for all threads: subclass it and implement ``batch``.

    A store that waits for something overrides ``abatch`` too, which runs ``batch`` on a thread.
    """

    #: Whether items may have a time to live.
    supports_ttl = False

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Performs operations and returns a result for each.

        What is read is what was there before the batch; of several values for one key the last
        is kept.
        """

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like batch, on the running event loop."""
        return await asyncio.to_thread(self.batch, ops)

    def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Reads one item, or None."""
        return self.batch([_get(namespace, key, refresh_ttl)])[0]  # type: ignore[return-value]

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
        """Finds items in a namespace and those below it.

        ``filter`` compares fields of the value: with a value, with a dict of fields, or with
        operators (``{"age": {"$gte": 18}}``; also ``$eq $ne $gt $lt $lte``). ``query`` is for
        stores that rank by meaning; the others don't look at it.
        """
        op = _search(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return self.batch([op])[0]  # type: ignore[return-value]

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Index = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Stores a dict, in place of the one that is there; ``ttl`` is in minutes.

        Raises InvalidNamespaceError, and NotImplementedError for a ``ttl`` that the store
        doesn't support.
        """
        self.batch([self._put(namespace, key, value, index, ttl)])

    def delete(self, namespace: Namespace, key: str) -> None:
        """Removes an item, if it is there."""
        self.batch([PutOp(tuple(namespace), str(key), None)])

    def list_namespaces(
        self,
        *,
        prefix: Path | None = None,
        suffix: Path | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Lists the namespaces that hold items, sorted."""
        return self.batch([_list(prefix, suffix, max_depth, limit, offset)])[0]  # type: ignore[return-value]

    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Like get."""
        return (await self.abatch([_get(namespace, key, refresh_ttl)]))[0]  # type: ignore[return-value]

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
        """Like search."""
        op = _search(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return (await self.abatch([op]))[0]  # type: ignore[return-value]

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Index = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Like put."""
        await self.abatch([self._put(namespace, key, value, index, ttl)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """Like delete."""
        await self.abatch([PutOp(tuple(namespace), str(key), None)])

    async def alist_namespaces(
        self,
        *,
        prefix: Path | None = None,
        suffix: Path | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Like list_namespaces."""
        return (await self.abatch([_list(prefix, suffix, max_depth, limit, offset)]))[0]  # type: ignore[return-value]

    def _put(
        self, namespace: Namespace, key: str, value: Any, index: Index, ttl: float | None
    ) -> PutOp:
        _check_namespace(namespace)
        if not isinstance(value, Mapping):
            raise TypeError(f"A store holds dicts, not {type(value).__name__}.")
        if ttl is not None and not self.supports_ttl:
            raise NotImplementedError(f"TTL is not supported by {type(self).__name__}.")
        return PutOp(tuple(namespace), str(key), value, index, ttl)


def _get(namespace: Namespace, key: str, refresh: bool | None) -> GetOp:
    return GetOp(tuple(namespace), str(key), refresh is not False)


def _search(
    prefix: Namespace,
    query: str | None,
    filter: dict[str, Any] | None,
    limit: int,
    offset: int,
    refresh: bool | None,
) -> SearchOp:
    return SearchOp(tuple(prefix), filter, limit, offset, query, refresh is not False)


def _list(
    prefix: Path | None, suffix: Path | None, max_depth: int | None, limit: int, offset: int
) -> ListNamespacesOp:
    conditions = []
    if prefix:
        conditions.append(MatchCondition("prefix", tuple(prefix)))
    if suffix:
        conditions.append(MatchCondition("suffix", tuple(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def _check_namespace(namespace: Any) -> None:
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise InvalidNamespaceError(f"A namespace is a tuple of labels, not {namespace!r}.")
    if not namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    for label in namespace:
        if not isinstance(label, str):
            message = f"labels must be strings, but got {type(label).__name__}"
        elif not label:
            message = "labels cannot be empty strings"
        elif "." in label:
            message = "labels cannot contain periods ('.')"
        else:
            continue
        raise InvalidNamespaceError(f"Namespace {message}: {tuple(namespace)!r}.")
    if namespace[0] == "langgraph":
        raise InvalidNamespaceError('Root label for namespace cannot be "langgraph".')
