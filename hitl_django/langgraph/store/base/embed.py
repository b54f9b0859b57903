"""Embeddings of a store, and extraction of the texts to embed."""

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
