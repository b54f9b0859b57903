"""The bridge to LangGraph for the engine; needs no Django.

Stored types are registered when this module is imported.
"""

from __future__ import annotations

from .graph_node import build_graph_action
from .host import HostNode
from .stored_types import register_stored_types

__all__ = ["HostNode", "build_graph_action"]

register_stored_types()
