"""Sends webhooks: what ``outbox`` has written, to addresses that strangers may have given.

    signing.py      secrets, and the signature by which a receiver knows us (Standard Webhooks)
    addresses.py    which addresses may be sent to at all, decided after the name is resolved
    posting.py      one POST to one checked address, within one deadline
    claims.py       who sends: a lease on the endpoint, a claim on each message
    messages.py     what a message says
    sending.py      deliver: all that is due to an endpoint; and what becomes of each attempt
    upkeep.py       for the sweep: endpoints nobody was told about, and messages past their time

At least once, and mostly in the order of events: a receiver tells repetitions by ``webhook-id``.
"""

from __future__ import annotations

from .addresses import check_url
from .delivery import deliver
from .maintenance import hint_due, remove_old
from .signatures import new_secret, sign

__all__ = ["check_url", "deliver", "hint_due", "new_secret", "remove_old", "sign"]
