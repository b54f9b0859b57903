"""Runtime objects passed to nodes."""

from __future__ import annotations

from hitl_django.engine.task.node_api import get_runtime
from hitl_django.engine.task.runtime import BaseUser, ExecutionInfo, RunControl, Runtime, ServerInfo

__all__ = ["BaseUser", "ExecutionInfo", "RunControl", "Runtime", "ServerInfo", "get_runtime"]
