"""Node cache in memory."""

from __future__ import annotations

from hitl_django.engine.loop.node_cache import InMemoryCache

__all__ = ["InMemoryCache"]
