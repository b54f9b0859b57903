"""Operations of a store: plain values, so that several go in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from .items import Item, SearchItem

Namespace = tuple[str, ...]
#: A namespace in which the label ``*`` stands for any.
NamespacePath = tuple[str, ...]
NamespaceMatchType = Literal["prefix", "suffix"]
Index = Literal[False] | list[str] | None


class GetOp(NamedTuple):
    """Reads one item; the result is the item or None."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    """Finds items in a namespace and those below it; the result is a list."""

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class PutOp(NamedTuple):
    """Stores one item, or removes it where ``value`` is None; ``ttl`` is in minutes.

    ``index`` names the fields that are embedded; None takes those of the store, False none.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Index = None  # type: ignore[assignment]  # a tuple has a method of that name
    ttl: float | None = None


class MatchCondition(NamedTuple):
    """How a namespace begins or ends; the label ``*`` stands for any."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """Lists namespaces that meet all conditions, cut to ``max_depth`` labels."""

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op = GetOp | SearchOp | PutOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None
#: What names an item.
ItemKey = tuple[Namespace, str]


def select_puts(ops: Iterable[Op]) -> dict[ItemKey, PutOp]:
    """Return the puts of a batch, of each key the last, in the order of the keys' first."""
    return {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}


def check_operations(ops: Iterable[Any]) -> list[Op]:
    """Return the operations of a batch as a list.

    Raises ValueError for what is none, and TypeError for a value that is no dict.
    """
    checked = list(ops)
    for op in checked:
        if not isinstance(op, Op):
            raise ValueError(f"Unknown operation type: {type(op)}")
        if isinstance(op, PutOp):
            check_value(op.value)
    return checked


def check_value(value: Any) -> None:
    """Raise TypeError for what is neither a dict nor None, which removes an item."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"Store values must be dicts, not {type(value).__name__}.")
