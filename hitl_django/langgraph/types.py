"""Values that graphs, callers and checkpointers pass to each other."""

from __future__ import annotations

from hitl_django.engine.savers.checkpoint import Checkpointer
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import (
    All,
    CachePolicy,
    Command,
    Durability,
    GraphOutput,
    Interrupt,
    Overwrite,
    PregelTask,
    RetryPolicy,
    Send,
    StateSnapshot,
    StateUpdate,
    StreamMode,
    StreamWriter,
    TimeoutPolicy,
)

__all__ = [
    "All",
    "CachePolicy",
    "Checkpointer",
    "Command",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamWriter",
    "TimeoutPolicy",
    "interrupt",
]
