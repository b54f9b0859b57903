"""Access of a node's code to its run."""

from __future__ import annotations

from hitl_django.engine.task.node_api import get_config, get_store, get_stream_writer

__all__ = ["get_config", "get_store", "get_stream_writer"]
