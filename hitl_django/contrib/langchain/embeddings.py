"""Loading of LangChain embeddings by model name."""

from __future__ import annotations

from typing import Any


def load_embeddings(name: str) -> Any:
    """Load embeddings by name, for example ``"openai:text-embedding-3-small"``.

    If LangChain doesn't know the name, or the package of the provider isn't installed, LangChain's
    own error is raised.

    Raises:
        ValueError: the package langchain isn't installed.
    """
    try:
        from langchain.embeddings import init_embeddings
    except ImportError as error:
        raise ValueError(
            f"Embeddings {name!r} are loaded by LangChain: install 'langchain' and the "
            "provider's package, or pass an object or function as 'embed'."
        ) from error
    return init_embeddings(name)
