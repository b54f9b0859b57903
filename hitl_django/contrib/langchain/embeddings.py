"""Embeddings by the name of a model, as LangChain loads them."""

from __future__ import annotations

from typing import Any


def load_embeddings(name: str) -> Any:
    """Return the embeddings of that name, such as ``"openai:text-embedding-3-small"``.

    Raises ValueError where langchain isn't installed, which langchain-core doesn't bring, and what
    it raises itself for a name that it doesn't know, or a provider's package that isn't there.
    """
    try:
        from langchain.embeddings import init_embeddings
    except ImportError as error:
        raise ValueError(
            f"Embeddings {name!r} are loaded by LangChain: install 'langchain' and the "
            "provider's package, or pass an object or function as 'embed'."
        ) from error
    return init_embeddings(name)
