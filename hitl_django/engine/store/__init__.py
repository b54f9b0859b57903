"""The store, which threads share: items under a namespace and a key."""

from __future__ import annotations

from .items import Item, SearchItem
from .memory import InMemoryStore
from .operations import GetOp, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchOp
from .store import BaseStore

__all__ = [
    "BaseStore",
    "GetOp",
    "InMemoryStore",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
]
