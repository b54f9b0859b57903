"""LangGraph's graphs and ours in one program: the one package that knows langgraph."""

from __future__ import annotations

from .graph_node import build_graph_action
from .host import HostNode

__all__ = ["HostNode", "build_graph_action"]
