"""Interface of caches for node results."""

from __future__ import annotations

from hitl_django.engine.loop.node_cache import BaseCache

__all__ = ["BaseCache"]
