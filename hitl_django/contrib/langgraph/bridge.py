"""The engine's bridge to LangGraph, without Django. Its import registers the stored types."""

from __future__ import annotations

from .graph_node import build_graph_action
from .parent_node import ParentNode
from .run_saver import find_task_context
from .stored_types import register_stored_types

__all__ = ["ParentNode", "build_graph_action", "find_task_context"]

register_stored_types()
