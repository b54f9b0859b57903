"""The checkpointer that keeps threads in memory."""

from __future__ import annotations

from hitl_django.engine.savers.memory import InMemorySaver, MemorySaver
from hitl_django.engine.savers.persistent_dict import PersistentDict

__all__ = ["InMemorySaver", "MemorySaver", "PersistentDict"]
