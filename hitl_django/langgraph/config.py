"""Functions with which a node's code accesses the current run."""

from __future__ import annotations

from hitl_django.engine.task.node_api import get_config, get_store, get_stream_writer

__all__ = ["get_config", "get_store", "get_stream_writer"]
