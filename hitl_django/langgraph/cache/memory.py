"""A cache in memory for node results."""

from __future__ import annotations

from hitl_django.engine.loop.node_cache import InMemoryCache

__all__ = ["InMemoryCache"]
