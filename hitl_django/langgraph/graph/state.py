"""The graph builder and the compiled graph."""

from __future__ import annotations

from hitl_django.engine.graph.state_graph import CompiledStateGraph, StateGraph

__all__ = ["CompiledStateGraph", "StateGraph"]
