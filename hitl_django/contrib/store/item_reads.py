"""The read operations of a batch. Reading an item may restart its time to live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from django.db.models import Q, QuerySet

from hitl_django.engine.store import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    Result,
    SearchItem,
    SearchOp,
)
from hitl_django.engine.store.namespaces import list_matching
from hitl_django.engine.store.operations import ItemKey, Namespace
from hitl_django.engine.store.search_index import EmbeddedTexts

from .expiry import BATCH, refresh_items, select_alive
from .item_search import find_items, select_below
from .models import StoreItem


def read_batch(using: str, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
    """Return the results of a batch's operations. The result of a write is None.

    ``embedded`` contains the vectors of the search queries.
    """
    reads = _Reads(using, ops, embedded)
    results = [reads.read(op) for op in ops]
    refresh_items(using, list(reads.refreshed))
    return results


class _Reads:
    """The items that a batch reads.

    ``refreshed`` contains the primary keys of the items for which the read restarts the time to
    live.
    """

    def __init__(self, using: str, ops: Sequence[Op], embedded: EmbeddedTexts) -> None:
        self.using, self.embedded = using, embedded
        names = [(op.namespace, op.key) for op in ops if isinstance(op, GetOp)]
        rows = select_alive(using).defer("vectors")
        self.got = {
            (row.namespace, row.key): row for part in select_items(rows, names) for row in part
        }
        self.refreshed: dict[int, None] = {}

    def read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            row = self.got.get((op.namespace, op.key))
            return None if row is None else _as_item(self._live_on(row, op.refresh_ttl))
        if isinstance(op, SearchOp):
            found = find_items(self.using, op, self.embedded.find_query(op))
            return [_as_found(self._live_on(row, op.refresh_ttl), score) for row, score in found]
        if isinstance(op, ListNamespacesOp):
            return _list_namespaces(self.using, op)
        return None

    def _live_on(self, row: StoreItem, refresh: bool) -> StoreItem:
        if refresh and row.ttl is not None:
            self.refreshed[row.pk] = None
        return row


def select_items(
    rows: QuerySet[StoreItem], names: Sequence[ItemKey]
) -> Iterator[QuerySet[StoreItem]]:
    """Yield querysets that together contain the rows with the given namespaces and keys.

    Each queryset has only as many namespaces and keys as fit in one SQL statement.
    """
    for start in range(0, len(names), BATCH):
        keys: dict[Namespace, list[str]] = {}
        for namespace, key in names[start : start + BATCH]:
            keys.setdefault(namespace, []).append(key)
        chosen = Q()
        for namespace, own in keys.items():
            chosen |= Q(namespace=namespace, key__in=own)
        yield rows.filter(chosen)


def _list_namespaces(using: str, op: ListNamespacesOp) -> list[Namespace]:
    rows = select_alive(using)
    for condition in op.match_conditions or ():
        rows = select_below(rows, _take_known(condition))
    return list_matching(rows.order_by().values_list("namespace", flat=True).distinct(), op)


def _take_known(condition: MatchCondition) -> Namespace:
    """Return the labels of a prefix condition that precede the first ``*``.

    If the condition has no ``*``, return all labels. For a suffix condition, return ().
    """
    if condition.match_type != "prefix":
        return ()
    return tuple(takewhile("*".__ne__, condition.path))


def _as_item(row: StoreItem) -> Item:
    return Item(
        value=row.value,
        key=row.key,
        namespace=row.namespace,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _as_found(row: StoreItem, score: float | None) -> SearchItem:
    return SearchItem(row.namespace, row.key, row.value, row.created_at, row.updated_at, score)
