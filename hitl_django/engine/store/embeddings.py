"""Embeddings: what turns texts into vectors, in whatever form a program has it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any, cast

from .. import bridges

EmbeddingsFunc = Callable[[Sequence[str]], list[list[float]]]
AEmbeddingsFunc = Callable[[Sequence[str]], Awaitable[list[list[float]]]]


class Embeddings(ABC):
    """Turns texts into vectors: subclass it and implement the first two methods.

    LangChain's class of that name has the same methods, and does as well.
    """

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text that is to be found."""

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text that is looked for."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Like embed_documents, on a thread."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Like embed_query, on a thread."""
        return await asyncio.to_thread(self.embed_query, text)


class EmbeddingsLambda(Embeddings):
    """A function as embeddings: it takes texts and returns a vector for each, or is awaited.

    Raises ValueError where an ``async`` one is called without an event loop.
    """

    def __init__(self, func: EmbeddingsFunc | AEmbeddingsFunc) -> None:
        if not callable(func):
            raise ValueError(
                "'embed' must be an object with embed_documents and embed_query, a "
                f"function, or a model name, not {func!r}."
            )
        self._func: Callable[[Sequence[str]], Any] = func
        self._is_async = iscoroutinefunction(func) or iscoroutinefunction(
            getattr(func, "__call__", None)  # noqa: B004 - an object whose call is async
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self._is_async:
            raise ValueError(
                "The store's 'embed' is async: use the store's async methods (aput, "
                "asearch, abatch), or pass a sync function."
            )
        vectors: list[list[float]] = self._func(texts)
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        if not self._is_async:
            return await super().aembed_documents(texts)
        vectors: list[list[float]] = await self._func(texts)
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


def ensure_embeddings(
    embed: Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str | Any | None,
) -> Embeddings:
    """Return embeddings for what a program has: such an object, a function, or a model's name.

    A name (``"openai:text-embedding-3-small"``) is LangChain's, which has to be installed.
    Raises ValueError for anything else.
    """
    if embed is None:
        raise ValueError("embed must be provided")
    if isinstance(embed, str):
        return _load_embeddings(embed)
    if hasattr(embed, "embed_documents") and hasattr(embed, "embed_query"):
        return cast(Embeddings, embed)
    return EmbeddingsLambda(embed)


def _load_embeddings(name: str) -> Embeddings:
    langchain = bridges.find_langchain()
    if langchain is None:
        raise ValueError(
            f"Embeddings {name!r} are loaded by LangChain: install 'langchain' and the "
            "provider's package, or pass an object or function as 'embed'."
        )
    found: Embeddings = langchain.load_embeddings(name)
    return found
