"""Embeddings, which convert texts to vectors: their interface, and adapters."""

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
    """Base class of embeddings, compatible with LangChain's class of the same name.

    Subclasses implement embed_documents and embed_query.
    """

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text to index."""

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Async variant of embed_documents."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Async variant of embed_query."""
        return await asyncio.to_thread(self.embed_query, text)


class EmbeddingsLambda(Embeddings):
    """Embeddings that are computed by a sync or async function from a list of texts.

    The sync methods raise ValueError if the function is async.
    """

    def __init__(self, func: EmbeddingsFunc | AEmbeddingsFunc) -> None:
        if not callable(func):
            raise ValueError(
                "'embed' must be an object with embed_documents and embed_query, a "
                f"function, or a model name, not {func!r}."
            )
        self._func: Callable[[Sequence[str]], Any] = func
        self._is_async = iscoroutinefunction(func) or iscoroutinefunction(
            getattr(func, "__call__", None)  # noqa: B004 - an object with an async __call__
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
    """Return an Embeddings object for an embeddings object, a function or a model name.

    A model name, such as ``"openai:text-embedding-3-small"``, requires LangChain.

    Raises:
        ValueError: the argument has another type, or LangChain is needed but not installed.
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
