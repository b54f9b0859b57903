"""What a thread's state is, as anybody with the graph would read it."""

from __future__ import annotations

from typing import Any

from hitl_django.checkpoints import DjangoSaver
from hitl_django.graph_registry import registry
from hitl_django.models import Thread


def values_of(thread: Thread) -> Any:
    """Return the values of a thread's state."""
    graph = registry.get_graph(thread.graph).graph.with_saver(DjangoSaver())
    return graph.get_state({"configurable": {"thread_id": thread.thread_id}}).values
