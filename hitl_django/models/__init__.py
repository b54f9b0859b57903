"""Models for runs, the engine's history and the review queue."""

from __future__ import annotations

from .comments import Comment
from .events import RunEvent
from .history import ChannelBlob, Checkpoint, GraphShape, PendingWrite
from .idempotency_records import IdempotencyRecord
from .review import AuditEntry, Decision, Interrupt, ReviewItem
from .saved_filters import SavedFilter
from .threads import Run, Thread
from .workers import WorkerHeartbeat

__all__ = [
    "AuditEntry",
    "ChannelBlob",
    "Checkpoint",
    "Comment",
    "Decision",
    "GraphShape",
    "IdempotencyRecord",
    "Interrupt",
    "PendingWrite",
    "ReviewItem",
    "Run",
    "RunEvent",
    "SavedFilter",
    "Thread",
    "WorkerHeartbeat",
]
