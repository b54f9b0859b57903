"""What the database keeps: threads and runs, the engine's history, and the review queue."""

from __future__ import annotations

from .comments import Comment
from .events import RunEvent
from .history import ChannelBlob, Checkpoint, GraphShape, PendingWrite
from .links import ReviewLink
from .review import AuditEntry, Decision, Interrupt, ReviewItem
from .threads import Run, Thread
from .webhooks import Delivery, WebhookEndpoint
from .workers import WorkerHeartbeat

__all__ = [
    "AuditEntry",
    "ChannelBlob",
    "Checkpoint",
    "Comment",
    "Decision",
    "Delivery",
    "GraphShape",
    "Interrupt",
    "PendingWrite",
    "ReviewItem",
    "ReviewLink",
    "Run",
    "RunEvent",
    "Thread",
    "WebhookEndpoint",
    "WorkerHeartbeat",
]
