"""Values passed between graphs, callers and checkpointers."""

from __future__ import annotations

from hitl_django.engine.savers.checkpoint import Checkpointer
from hitl_django.engine.stream_parts import (
    CheckpointPayload,
    CheckpointStreamPart,
    CheckpointTask,
    CustomStreamPart,
    DebugPayload,
    DebugStreamPart,
    MessagesStreamPart,
    StreamPart,
    TaskPayload,
    TaskResultPayload,
    TasksStreamPart,
    UpdatesStreamPart,
    ValuesStreamPart,
)
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.task.retry import default_retry_on
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
    "CheckpointPayload",
    "CheckpointStreamPart",
    "CheckpointTask",
    "Checkpointer",
    "Command",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "MessagesStreamPart",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "TimeoutPolicy",
    "UpdatesStreamPart",
    "ValuesStreamPart",
    "default_retry_on",
    "interrupt",
]
