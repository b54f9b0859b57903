"""The admin: the review queue, and runs, questions and decisions to look at.

Pages check a permission, call a service and render. The engine's own tables aren't registered.
"""

from __future__ import annotations

from .records import DecisionAdmin, InterruptAdmin
from .review import ReviewItemAdmin
from .runs import RunAdmin
from .webhooks import DeliveryAdmin, WebhookEndpointAdmin

__all__ = [
    "DecisionAdmin",
    "DeliveryAdmin",
    "InterruptAdmin",
    "ReviewItemAdmin",
    "RunAdmin",
    "WebhookEndpointAdmin",
]
