"""The admin: the review queue, and runs, questions and decisions to look at.

Pages check a permission, call a service and render. The engine's own tables are in no index unless
``HITL["ADMIN_ENGINE"]`` asks for it.
"""

from __future__ import annotations

from .engine import ChannelBlobAdmin, CheckpointAdmin, PendingWriteAdmin
from .links import ReviewLinkAdmin
from .records import DecisionAdmin, InterruptAdmin
from .review import ReviewItemAdmin
from .runs import RunAdmin
from .subjects import SubjectReviews
from .threads import ThreadAdmin
from .webhooks import DeliveryAdmin, WebhookEndpointAdmin

__all__ = [
    "ChannelBlobAdmin",
    "CheckpointAdmin",
    "DecisionAdmin",
    "DeliveryAdmin",
    "InterruptAdmin",
    "PendingWriteAdmin",
    "ReviewItemAdmin",
    "ReviewLinkAdmin",
    "RunAdmin",
    "SubjectReviews",
    "ThreadAdmin",
    "WebhookEndpointAdmin",
]
