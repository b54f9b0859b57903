"""The engine's bridge to LangGraph. The bridge doesn't need Django.

Importing this module registers LangGraph's classes that the state may contain.
"""

from __future__ import annotations

from typing import Any

from langgraph.pregel.remote import RemoteGraph

from hitl_django.engine.task.nodes import Action

from .graph_node import build_graph_action as build_local_action
from .parent_node import ParentNode
from .remote_node import build_remote_action
from .run_saver import find_task_context
from .stored_types import register_stored_types

__all__ = ["ParentNode", "build_graph_action", "find_task_context"]

register_stored_types()


def build_graph_action(graph: Any) -> Action:
    """Return the action of a node that is a compiled LangGraph graph or a RemoteGraph."""
    if isinstance(graph, RemoteGraph):
        return build_remote_action(graph)
    return build_local_action(graph)
