"""Graphs whose nodes share a state."""

from __future__ import annotations

from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.state.messages import MessagesState, add_messages

from .message import MessageGraph

__all__ = ["END", "START", "MessageGraph", "MessagesState", "StateGraph", "add_messages"]
