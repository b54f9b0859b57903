"""Names of nodes, channels and writes."""

from __future__ import annotations

from hitl_django.engine.constants import (
    COPY,
    END,
    ERROR,
    ERROR_SOURCE_NODE,
    INPUT,
    INTERRUPT,
    NO_WRITES,
    NS_END,
    NS_SEP,
    NULL_TASK_ID,
    PREVIOUS,
    PULL,
    PUSH,
    RESUME,
    RETURN,
    ROOT,
    SCHEDULED,
    START,
    TAG_HIDDEN,
    TAG_NOSTREAM,
    TASKS,
)
from hitl_django.engine.types import Interrupt, Send

__all__ = [
    "COPY",
    "END",
    "ERROR",
    "ERROR_SOURCE_NODE",
    "INPUT",
    "INTERRUPT",
    "NO_WRITES",
    "NS_END",
    "NS_SEP",
    "NULL_TASK_ID",
    "PREVIOUS",
    "PULL",
    "PUSH",
    "RESUME",
    "RETURN",
    "ROOT",
    "SCHEDULED",
    "START",
    "TAG_HIDDEN",
    "TAG_NOSTREAM",
    "TASKS",
    "Interrupt",
    "Send",
]
