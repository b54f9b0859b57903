"""LangGraph's module layout: ``langgraph.x`` is importable as ``hitl_django.langgraph.x``.

Each module re-exports the names of LangGraph's module that this package provides.
"""

from __future__ import annotations
