"""The checkpointer: the interface, what it stores, and the one that keeps it in memory."""

from __future__ import annotations
