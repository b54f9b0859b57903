"""Values that graphs pass to each other, at the place where they were once imported from."""

from __future__ import annotations

from warnings import warn

from hitl_django.engine.task.retry import default_retry_on
from hitl_django.langgraph.types import (
    All,
    CachePolicy,
    PregelTask,
    RetryPolicy,
    StateSnapshot,
    StateUpdate,
    StreamMode,
    StreamWriter,
)

warn(
    "hitl_django.langgraph.pregel.types is deprecated: import from hitl_django.langgraph.types.",
    DeprecationWarning,
    stacklevel=2,
)

__all__ = [
    "All",
    "CachePolicy",
    "PregelTask",
    "RetryPolicy",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamWriter",
    "default_retry_on",
]
