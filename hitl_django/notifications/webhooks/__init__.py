"""Sending of messages that ``outbox`` has written; and of webhooks, to addresses of strangers.

    signatures.py   secrets, and the signature by which a receiver knows us (Standard Webhooks)
    addresses.py    which addresses may be sent to at all, decided after the name is resolved
    http_post.py    one POST to one checked address, within one deadline
    claims.py       who sends: a claim on the endpoint, a claim on each message
    messages.py     body and headers of a webhook, and the channel that sends one
    delivery.py     deliver: all that is due to an endpoint; and what becomes of each attempt
    maintenance.py  for the sweep: endpoints that wait for a worker, and messages past their time

At least once, and mostly in the order of events: a receiver knows repetitions by ``webhook-id``.
"""

from __future__ import annotations

from hitl_django.extensions import Extension, register

from .. import outbox
from ..channels import register_channel
from .addresses import check_url
from .delivery import deliver
from .maintenance import enqueue_due, remove_old
from .messages import WEBHOOK
from .signatures import make_secret, sign_message

__all__ = [
    "WEBHOOK",
    "check_url",
    "deliver",
    "enqueue_due",
    "make_secret",
    "remove_old",
    "sign_message",
]

register_channel(WEBHOOK)
register(Extension(name="hitl_webhooks", subscribers=[outbox.write_messages]))
