"""Searches in the store by namespace, filter and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from hitl_django.engine.store.filters import fits_filter
from hitl_django.engine.store.operations import Namespace, SearchOp
from hitl_django.engine.store.ranking import Vector, rank_candidates
from hitl_django.models.fields import namespace_bounds

from .expiry import select_alive
from .models import StoreItem
from .vector_bytes import decode_vectors

#: Maximum number of texts of a filter for which the database searches.
MAX_TEXTS = 20

#: A found item and its score.
Found = tuple[StoreItem, float | None]


def find_items(using: str, op: SearchOp, query: Vector | None) -> list[Found]:
    """Return the items of one page of a search, each with its score.

    With a query vector, the items are sorted by score, highest first. Items without vectors come
    last. Without a query vector, the items are sorted by namespace, and their score is None.
    """
    rows = _select_candidates(using, op)
    end = op.offset + op.limit
    # A negative bound counts from the end, so all items must be read.
    is_page = min(op.offset, op.limit) >= 0
    if query is not None:
        return _find_nearest(rows, op, query)
    if is_page and not op.filter:
        return [(item, None) for item in rows.defer("vectors")[op.offset : end]]
    found = islice(_iterate_fitting(rows.defer("vectors"), op), end if is_page else None)
    return [(item, None) for item in [*found][op.offset : end]]


def select_below(rows: QuerySet[StoreItem], prefix: Namespace) -> QuerySet[StoreItem]:
    """Return the items of a namespace and of the namespaces below it."""
    if not prefix:
        return rows
    first, behind = namespace_bounds(prefix)
    return rows.filter(namespace__gte=first, namespace__lt=behind)


def _select_candidates(using: str, op: SearchOp) -> QuerySet[StoreItem]:
    rows = select_below(select_alive(using), op.namespace_prefix)
    # The comparison of values decides which items match. Searching for a few texts in the database
    # excludes most other items.
    texts = islice(_list_needed_texts(op.filter or {}), MAX_TEXTS)
    conditions = [Q(text__contains=text) for text in texts]
    if conditions:
        rows = rows.alias(text=Cast("value", TextField())).filter(*conditions)
    return rows.order_by("namespace", "pk")


def _list_needed_texts(wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield texts that an item's JSON must contain to match the filter ``wanted``.

    An SQL query can search for these texts, for example ``"color":"red"``. There is one text for
    each string that the filter compares by equality. There are no texts for other values, because a
    value such as 1 has several JSON forms (1 and 1.0).
    """
    for key, each in wanted.items():
        if isinstance(each, Mapping):
            if "$eq" in each:
                each = each["$eq"]
            elif not any(str(name).startswith("$") for name in each):
                yield from _list_needed_texts(each)
        if isinstance(each, str):
            member = {str(key): each}
            yield json.dumps(member, ensure_ascii=False, separators=(",", ":"))[1:-1]


def _iterate_fitting(rows: QuerySet[StoreItem], op: SearchOp) -> Iterator[StoreItem]:
    # An invalid filter ends the loop early. The error would keep the cursor open.
    found: Any = rows.iterator()
    with closing(found):
        for item in found:
            if fits_filter(item.value, op.filter):
                yield item


def _find_nearest(rows: QuerySet[StoreItem], op: SearchOp, query: Vector) -> list[Found]:
    # Values are large, so read them only for filters and for returned items.
    columns = ("pk", "vectors", "value") if op.filter else ("pk", "vectors")
    candidates = (
        (row.pk, decode_vectors(bytes(row.vectors)))
        for row in rows.values_list(*columns, named=True).iterator()
        if not op.filter or fits_filter(row.value, op.filter)
    )
    ranked = rank_candidates(query, candidates)[op.offset : op.offset + op.limit]
    items = rows.defer("vectors").in_bulk([key for key, _ in ranked])
    # An item may have been removed in the meantime.
    return [(items[key], score) for key, score in ranked if key in items]
