"""The compiled graph and the low-level builder."""

from __future__ import annotations

from hitl_django.engine.graph.node_builder import NodeBuilder
from hitl_django.engine.graph.pregel import Pregel

__all__ = ["NodeBuilder", "Pregel"]
