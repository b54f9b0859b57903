"""Stores that combine calls into batches."""

from __future__ import annotations

from hitl_django.engine.store import AsyncBatchedBaseStore

__all__ = ["AsyncBatchedBaseStore"]
