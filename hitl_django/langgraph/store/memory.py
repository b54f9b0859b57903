"""A store of items in memory."""

from __future__ import annotations

from hitl_django.engine.store import InMemoryStore

__all__ = ["InMemoryStore"]
