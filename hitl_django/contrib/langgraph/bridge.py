"""The bridge to LangGraph for the engine; needs no Django.

Stored types are registered when this module is imported.
"""

from __future__ import annotations

from .graph_node import build_graph_action
from .parent_node import ParentNode
from .stored_types import register_stored_types

__all__ = ["ParentNode", "build_graph_action"]

register_stored_types()
