"""Imports killed and repeated: each thread is imported once, with its interrupts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command

from hitl_django import StateGraph, interrupt, register
from hitl_django.engine.types import Send
from hitl_django.graph_registry import registry
from tests.chaos import commits

from .langgraph_threads import write

pytestmark = pytest.mark.django_db(transaction=True)

FILE = Path(write.__file__).parent / "langgraph-1.0.2.sqlite"


@pytest.mark.long
def test_import_killed_at_any_commit_imports_each_thread_once() -> None:
    def bring() -> None:
        source = ("--sqlite", str(FILE), "--graph", "ported")
        call_command("hitl", "import-langgraph", *source, stdout=io.StringIO())

    with registry.hide_graphs():
        register("ported")(lambda: write.build_graph(StateGraph, Send, interrupt))
        commits.assert_same_after_kills(bring)
