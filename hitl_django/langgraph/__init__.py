"""LangGraph's module layout: for a module ``langgraph.x``, there is ``hitl_django.langgraph.x``.

Each module re-exports those names of LangGraph's module that this package provides.
"""

from __future__ import annotations
