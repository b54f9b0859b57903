"""Compiled graphs of LangGraph as nodes: the one package that knows langgraph."""

from __future__ import annotations

from .graph_node import build_graph_action

__all__ = ["build_graph_action"]
