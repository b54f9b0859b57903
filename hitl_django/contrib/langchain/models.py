"""Langchain's chat models, by their names."""

from __future__ import annotations

from typing import Any


def load_model(name: str) -> Any:
    """Return the chat model of a name such as ``"openai:gpt-5"``; ImportError without langchain.

    Only the package langchain knows the names, of which no other part is needed.
    """
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ImportError(
            f"Model {name!r} is given by name: install langchain, or pass a model object."
        ) from error
    return init_chat_model(name)
