"""Errors and control-flow signals; ``hitl_django.errors`` has all of them."""

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
