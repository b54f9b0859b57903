"""Webhooks, and the outbox: an optional app that sends messages about events to other systems.

models.py       endpoints, and the deliveries to them
outbox.py       writes deliveries in the transaction of their event
channels.py     the ways to send deliveries: webhooks, and the channels of other apps
event_labels.py labels of the events
tasks.py        the task that sends the deliveries of an endpoint
delivery.py     the attempts of due deliveries, and their results
claims.py       a worker's lease on an endpoint, and its claim on each delivery
maintenance.py  sweep steps: endpoints without a worker, old deliveries
messages.py     the channel that sends webhooks: their body and headers
signatures.py   secrets and signatures of webhooks (Standard Webhooks)
addresses.py    allowed addresses, checked after the name is resolved
http_post.py    one POST to one checked address, within one deadline
services.py     create, change and test webhooks; redeliver
api/            the routes of webhooks and deliveries

Each delivery is sent at least once. A receiver recognizes a repetition by its ``webhook-id``.
Deliveries are usually sent in the order of their events.
"""

from __future__ import annotations
