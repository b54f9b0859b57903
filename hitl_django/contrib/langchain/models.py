"""Loading of LangChain chat models by name."""

from __future__ import annotations

from typing import Any


def load_model(name: str) -> Any:
    """Load a chat model by name, for example ``"openai:gpt-5"``.

    Raises:
        ImportError: the package langchain isn't installed.
    """
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ImportError(
            f"Model {name!r} is given by name: install langchain, or pass a model object."
        ) from error
    return init_chat_model(name)
