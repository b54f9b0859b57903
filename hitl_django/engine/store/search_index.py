"""The search index of a store: its configuration, and the embedding of texts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from .embeddings import AEmbeddingsFunc, Embeddings, EmbeddingsFunc, ensure_embeddings
from .operations import Op, PutOp, SearchOp, select_puts
from .ranking import Vector, make_vector
from .text_paths import get_text_at_path, tokenize_path


class IndexConfig(TypedDict, total=False):
    """The configuration of a store's search index.

    ``embed`` is an object with embed_documents and embed_query (such as LangChain's embeddings), a
    sync or async function of a list of texts, or the name of a model for LangChain. ``fields`` are
    paths to the texts to embed (``["$"]`` for the whole item). ``dims`` is the length of the
    vectors. The stores of this package ignore ``dims``.
    """

    dims: int
    embed: Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str | Any
    fields: list[str] | None


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """The vectors of the texts in a batch: texts of items to store, and search queries."""

    documents: Mapping[str, Vector] = field(default_factory=dict)
    queries: Mapping[str, Vector] = field(default_factory=dict)

    def find_query(self, op: SearchOp) -> Vector | None:
        """Return the vector of a search's query text, or None if the search has no query text."""
        return self.queries.get(op.query) if op.query else None


NOTHING_EMBEDDED = EmbeddedTexts()


class SearchIndex:
    """A search index: it finds the texts in a batch of operations, and embeds them."""

    def __init__(self, config: IndexConfig) -> None:
        self.embeddings = ensure_embeddings(config.get("embed"))
        self._fields = [_tokenize(path) for path in config.get("fields") or ["$"]]

    def list_texts(self, op: PutOp) -> list[str]:
        """Return the texts of an item that are embedded, without duplicates."""
        if op.value is None or op.index is False:
            return []
        fields = self._fields if op.index is None else map(_tokenize, op.index)
        texts = (text for path in fields for text in get_text_at_path(op.value, path))
        return list(dict.fromkeys(texts))

    def embed(self, ops: Sequence[Op]) -> EmbeddedTexts:
        """Return the vectors of the texts in a batch."""
        texts, queries = self._list_all_texts(ops), _list_queries(ops)
        documents = self.embeddings.embed_documents(texts) if texts else []
        wanted = [self.embeddings.embed_query(query) for query in queries]
        return _pair(texts, documents, queries, wanted)

    async def aembed(self, ops: Sequence[Op]) -> EmbeddedTexts:
        """Async variant of embed."""
        texts, queries = self._list_all_texts(ops), _list_queries(ops)
        documents = await self.embeddings.aembed_documents(texts) if texts else []
        wanted = await asyncio.gather(*map(self.embeddings.aembed_query, queries))
        return _pair(texts, documents, queries, wanted)

    def _list_all_texts(self, ops: Iterable[Op]) -> list[str]:
        puts = select_puts(ops).values()
        return list(dict.fromkeys(text for op in puts for text in self.list_texts(op)))


def _tokenize(path: str) -> list[str]:
    return [] if path == "$" else tokenize_path(path)


def _list_queries(ops: Iterable[Op]) -> list[str]:
    return list(dict.fromkeys(op.query for op in ops if isinstance(op, SearchOp) and op.query))


def _pair(
    texts: Sequence[str],
    documents: Sequence[Any],
    queries: Sequence[str],
    wanted: Sequence[Any],
) -> EmbeddedTexts:
    if len(documents) != len(texts):
        raise ValueError(f"'embed' returned {len(documents)} vectors for {len(texts)} texts.")
    return EmbeddedTexts(
        dict(zip(texts, map(make_vector, documents), strict=True)),
        dict(zip(queries, map(make_vector, wanted), strict=True)),
    )
