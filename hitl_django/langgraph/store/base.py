"""The interface of stores."""

from __future__ import annotations

from hitl_django.engine.errors import InvalidNamespaceError
from hitl_django.engine.store import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

__all__ = [
    "BaseStore",
    "GetOp",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "PutOp",
    "SearchItem",
    "SearchOp",
]
