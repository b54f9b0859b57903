"""Graphs over a shared state."""

from __future__ import annotations

from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.state.messages import MessagesState, add_messages

__all__ = ["END", "START", "MessagesState", "StateGraph", "add_messages"]
