"""Operations of a store, as plain values that can be combined into a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from .items import Item, SearchItem

Namespace = tuple[str, ...]
#: A namespace in which the label ``*`` matches any label.
NamespacePath = tuple[str, ...]
NamespaceMatchType = Literal["prefix", "suffix"]
Index = Literal[False] | list[str] | None


class GetOp(NamedTuple):
    """A read of one item. The result is the item, or None if the item doesn't exist."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    """A search of a namespace and the namespaces below it. The result is a list of items."""

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class PutOp(NamedTuple):
    """A write of one item, or a deletion if ``value`` is None.

    ``ttl`` is the time to live in minutes. ``index`` are the fields to embed. None selects the
    fields configured for the store, and False selects no fields.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Index = None  # type: ignore[assignment]  # tuples have a method of that name
    ttl: float | None = None


class MatchCondition(NamedTuple):
    """A prefix or suffix of a namespace. The label ``*`` matches any label."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """An operation that lists the namespaces that match all conditions.

    The namespaces are shortened to ``max_depth`` labels.
    """

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op = GetOp | SearchOp | PutOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None
#: Identifies an item.
ItemKey = tuple[Namespace, str]


def select_puts(ops: Iterable[Op]) -> dict[ItemKey, PutOp]:
    """Return the last put for each key in a batch. Keys are ordered by their first put."""
    return {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}


def check_operations(ops: Iterable[Any]) -> list[Op]:
    """Return the operations of a batch as a list.

    Raises:
        ValueError: an element of ``ops`` is not an operation.
        TypeError: the value of a put is not a dict.
    """
    checked = list(ops)
    for op in checked:
        if not isinstance(op, Op):
            raise ValueError(f"Unknown operation type: {type(op)}")
        if isinstance(op, PutOp):
            check_value(op.value)
    return checked


def check_value(value: Any) -> None:
    """Raise TypeError unless the value of a put is a dict, or None to delete the item."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"Store values must be dicts, not {type(value).__name__}.")
