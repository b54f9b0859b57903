"""The base class of this package's stores, with semantic search and expiring items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from .embeddings import Embeddings
from .operations import Op, PutOp, Result, check_operations
from .ranking import Vector
from .search_index import NOTHING_EMBEDDED, EmbeddedTexts, IndexConfig, SearchIndex
from .store import BaseStore
from .ttl import TTLConfig


class IndexedStore(BaseStore):
    """A base class of stores with an optional search index.

    If the store has an index, the vectors of all texts in a batch of operations are computed first
    and then passed to ``perform``. Subclasses implement ``perform`` and ``aperform``.
    """

    supports_ttl = True

    def __init__(self, index: IndexConfig | None, ttl: TTLConfig | None) -> None:
        self.index_config = index or None
        self.ttl_config = ttl
        self._index = SearchIndex(index) if index else None

    @property
    def embeddings(self) -> Embeddings | None:
        """The embeddings of the store, or None if the store has no index."""
        return None if self._index is None else self._index.embeddings

    @abstractmethod
    def perform(self, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
        """Perform a batch of operations.

        ``embedded`` contains the vectors of the texts in the batch.
        """

    @abstractmethod
    async def aperform(self, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
        """Async variant of perform."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        checked = check_operations(ops)
        embedded = self._index.embed(checked) if self._index else NOTHING_EMBEDDED
        return self.perform(checked, embedded)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        checked = check_operations(ops)
        embedded = await self._index.aembed(checked) if self._index else NOTHING_EMBEDDED
        return await self.aperform(checked, embedded)

    def _find_vectors(self, op: PutOp, embedded: EmbeddedTexts) -> list[Vector]:
        if self._index is None:
            return []
        return [embedded.documents[text] for text in self._index.list_texts(op)]
