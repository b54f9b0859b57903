"""LangGraph's module layout: a port changes ``langgraph.`` to ``hitl_django.langgraph.``.

Each module re-exports what its namesake has and this package provides.
"""

from __future__ import annotations
