"""The place where values of graphs were once imported from: each name warns."""

from __future__ import annotations

from hitl_django.deprecation import moved

__getattr__ = moved("hitl_django.langgraph.pregel.types", "hitl_django.langgraph.types")
