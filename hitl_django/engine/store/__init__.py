"""The store of items shared by all threads, with an optional semantic search."""

from __future__ import annotations

from .batching import AsyncBatchedBaseStore
from .embeddings import (
    AEmbeddingsFunc,
    Embeddings,
    EmbeddingsFunc,
    EmbeddingsLambda,
    ensure_embeddings,
)
from .items import Item, SearchItem
from .memory import InMemoryStore
from .namespaces import validate_op_namespace
from .operations import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    NamespaceMatchType,
    NamespacePath,
    Op,
    PutOp,
    Result,
    SearchOp,
)
from .search_index import IndexConfig
from .store import BaseStore
from .text_paths import get_text_at_path, tokenize_path
from .ttl import NOT_PROVIDED, NotProvided, TTLConfig

__all__ = [
    "NOT_PROVIDED",
    "AEmbeddingsFunc",
    "AsyncBatchedBaseStore",
    "BaseStore",
    "Embeddings",
    "EmbeddingsFunc",
    "EmbeddingsLambda",
    "GetOp",
    "InMemoryStore",
    "IndexConfig",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
    "validate_op_namespace",
]
