"""LangGraph's store interface on DjangoStore, so that graphs of both engines can share items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langgraph.store import base as theirs

from hitl_django.contrib.store import DjangoStore
from hitl_django.db.alias import write_alias
from hitl_django.engine import store as ours
from hitl_django.engine.errors import InvalidNamespaceError
from hitl_django.engine.store.items import Item, SearchItem
from hitl_django.engine.store.search_index import EmbeddedTexts

from .shared_connection import call_with_connection

_OPERATIONS: dict[type, type] = {
    getattr(theirs, name): getattr(ours, name) for name in ("GetOp", "SearchOp", "PutOp")
}


class LangGraphStore(theirs.BaseStore):
    """Store for LangGraph graphs: ``graph.compile(store=LangGraphStore())``.

    The items are stored by DjangoStore, with the same limits and times to live. Sync and async
    methods are available. Vectors are stored as bytes with the items and compared in Python,
    without a database extension.
    """

    supports_ttl = True

    def __init__(
        self, *, index: theirs.IndexConfig | None = None, ttl: theirs.TTLConfig | None = None
    ) -> None:
        self._store = _BorrowingStore(index=index, ttl=ttl)  # type: ignore[arg-type]
        self.index_config, self.ttl_config = index, ttl

    @property
    def embeddings(self) -> Any:
        """The embeddings of the store, or None if it has no search index."""
        return self._store.embeddings

    def sweep_ttl(self) -> int:
        """Delete the expired items without waiting for the next sweep, and return their number."""
        return call_with_connection(write_alias(), self._store.sweep_ttl)

    def batch(self, ops: Iterable[theirs.Op]) -> list[theirs.Result]:
        with _raising_their_errors():
            return _convert_results(self._store.batch(map(_convert_operation, ops)))

    async def abatch(self, ops: Iterable[theirs.Op]) -> list[theirs.Result]:
        with _raising_their_errors():
            return _convert_results(await self._store.abatch(map(_convert_operation, ops)))


class _BorrowingStore(DjangoStore):
    """DjangoStore that is called on LangGraph's OS threads.

    Embeddings are computed on these OS threads. Rows are read and written with the database
    connection of the graph's caller.
    """

    def perform(self, ops: Sequence[ours.Op], embedded: EmbeddedTexts) -> list[ours.Result]:
        return call_with_connection(write_alias(), super().perform, ops, embedded)


def _convert_operation(op: Any) -> Any:
    """Convert an operation of LangGraph to the engine's class.

    An object that isn't an operation is returned unchanged, and is later rejected by the store.
    """
    if isinstance(op, theirs.ListNamespacesOp):
        conditions = (ours.MatchCondition(*each) for each in op.match_conditions or ())
        return ours.ListNamespacesOp(tuple(conditions), op.max_depth, op.limit, op.offset)
    kind = _OPERATIONS.get(type(op))
    return op if kind is None else kind(*op)


def _convert_results(results: Iterable[Any]) -> list[Any]:
    return [
        [_convert_item(each) for each in result]
        if isinstance(result, list)
        else _convert_item(result)
        for result in results
    ]


def _convert_item(found: Any) -> Any:
    """Convert an item to LangGraph's class. A result that isn't an item is returned unchanged."""
    if isinstance(found, SearchItem):
        return theirs.SearchItem(
            found.namespace, found.key, found.value, found.created_at, found.updated_at, found.score
        )
    if isinstance(found, Item):
        return theirs.Item(
            value=found.value,
            key=found.key,
            namespace=found.namespace,
            created_at=found.created_at,
            updated_at=found.updated_at,
        )
    return found


@contextmanager
def _raising_their_errors() -> Iterator[None]:
    try:
        yield
    except InvalidNamespaceError as error:
        raise theirs.InvalidNamespaceError(str(error)) from error
