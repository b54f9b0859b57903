"""Embeddings by model name, loaded by LangChain."""

from __future__ import annotations

import sys

import pytest

from hitl_django.engine import bridges
from hitl_django.engine.store import InMemoryStore


def test_store_index_with_model_name_raises_error_with_install_hint_if_langchain_core_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridges, "find_langchain", lambda: None)
    with pytest.raises(
        ValueError, match="'openai:small' are loaded by LangChain: install 'langchain'"
    ):
        InMemoryStore(index={"embed": "openai:small"})


def test_store_index_with_model_name_raises_error_with_install_hint_if_langchain_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "langchain.embeddings", None)
    with pytest.raises(ValueError, match="'openai:small' are loaded by LangChain: install"):
        InMemoryStore(index={"embed": "openai:small"})


def test_store_index_with_unknown_model_name_raises_error_of_langchain() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        InMemoryStore(index={"embed": "nowhere:model"})
