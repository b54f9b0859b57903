"""Operations of a store: plain values, so that several go in one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from .items import Item, SearchItem

Namespace = tuple[str, ...]


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
    """Stores one item, or removes it where ``value`` is None; ``ttl`` is in minutes."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]
    ttl: float | None = None


class MatchCondition(NamedTuple):
    """How a namespace begins or ends; the label ``*`` stands for any."""

    match_type: Literal["prefix", "suffix"]
    path: Sequence[str]


class ListNamespacesOp(NamedTuple):
    """Lists namespaces that meet all conditions, cut to ``max_depth`` labels."""

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op = GetOp | SearchOp | PutOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None
