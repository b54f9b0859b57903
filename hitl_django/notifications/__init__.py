"""Events of runs, and the outbox: rows that are written with what they are about.

redaction.py    values as JSON for people: bounded, without secrets
run_events.py   the events of one run, numbered by whoever holds its thread
outbox.py       messages to webhooks and others, which the package ``webhooks`` sends
channels.py     the ways in which they reach somebody: webhooks, and what apps bring
"""

from __future__ import annotations

from . import webhooks  # registers its channel
from .run_events import EventLog, append_event, append_queued

__all__ = ["EventLog", "append_event", "append_queued", "webhooks"]
