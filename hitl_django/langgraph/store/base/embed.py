"""Embeddings of a store, and the texts that they are made of."""

from __future__ import annotations

from hitl_django.engine.store import (
    AEmbeddingsFunc,
    Embeddings,
    EmbeddingsFunc,
    EmbeddingsLambda,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

__all__ = [
    "AEmbeddingsFunc",
    "Embeddings",
    "EmbeddingsFunc",
    "EmbeddingsLambda",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
]
