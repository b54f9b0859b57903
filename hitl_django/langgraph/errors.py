"""Errors and control-flow signals. All of them are also in ``hitl_django.errors``."""

from __future__ import annotations

from hitl_django.engine.channels import EmptyChannelError
from hitl_django.engine.errors import (
    EmptyInputError,
    GraphBubbleUp,
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    InvalidUpdateError,
    NodeCancelledError,
    NodeInterrupt,
    NodeTimeoutError,
    ParentCommand,
    TaskNotFound,
    UnknownInterruptError,
    is_invalid_resume,
)
from hitl_django.engine.types import ErrorCode, NodeError

__all__ = [
    "EmptyChannelError",
    "EmptyInputError",
    "ErrorCode",
    "GraphBubbleUp",
    "GraphDrained",
    "GraphInterrupt",
    "GraphRecursionError",
    "InvalidUpdateError",
    "NodeCancelledError",
    "NodeError",
    "NodeInterrupt",
    "NodeTimeoutError",
    "ParentCommand",
    "TaskNotFound",
    "UnknownInterruptError",
    "is_invalid_resume",
]
