"""Embeddings for tests, whose vectors count letters, so that distances are easy to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings as LangChainEmbeddings

LETTERS = "abcdefgh"


def count_letters(texts: Sequence[str]) -> list[list[float]]:
    return [[*(float(text.count(letter)) for letter in LETTERS), 1.0] for text in texts]


async def acount_letters(texts: Sequence[str]) -> list[list[float]]:
    return count_letters(texts)


class AsyncCounter:
    """An object whose call is async."""

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        return count_letters(texts)


class Counter(LangChainEmbeddings):
    """Embeddings with LangChain's class, which record their calls."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return count_letters(texts)

    def embed_query(self, text: str) -> list[float]:
        return count_letters([text])[0]


def index_of(*fields: str, embed: Any = count_letters) -> dict[str, Any]:
    index: dict[str, Any] = {"embed": embed, "dims": len(LETTERS) + 1}
    return {**index, "fields": list(fields)} if fields else index
