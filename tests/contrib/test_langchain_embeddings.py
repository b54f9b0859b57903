"""Embeddings by the name of a model, which only LangChain knows."""

from __future__ import annotations

import sys

import pytest

from hitl_django.engine import bridges
from hitl_django.engine.store import InMemoryStore


def test_named_embeddings_without_langchain_core_name_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridges, "find_langchain", lambda: None)
    with pytest.raises(
        ValueError, match="'openai:small' are loaded by LangChain: install 'langchain'"
    ):
        InMemoryStore(index={"embed": "openai:small"})


def test_named_embeddings_without_langchain_name_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "langchain.embeddings", None)
    with pytest.raises(ValueError, match="'openai:small' are loaded by LangChain: install"):
        InMemoryStore(index={"embed": "openai:small"})


def test_langchain_error_for_unknown_embeddings_is_passed_on() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        InMemoryStore(index={"embed": "nowhere:model"})
