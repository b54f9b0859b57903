"""What runs tell while they go, as rows that are written with what they tell of.

plain.py    values as JSON for people: bounded, without secrets
log.py      the events of one run, numbered by whoever holds its thread
"""

from __future__ import annotations

from .run_events import EventLog, append_event, append_queued

__all__ = ["EventLog", "append_event", "append_queued"]
