"""LangGraph's module layout, for imports with ``hitl_django.langgraph.`` for ``langgraph.``.

Each module re-exports the names of LangGraph's module that this package provides.
"""

from __future__ import annotations
