"""Events of runs: rows that are written with the changes that they are about.

run_events.py      the events of one run, numbered by whoever holds its thread
message_events.py  what a model says, as an event
redaction.py       values as JSON for people: bounded, without secrets
"""

from __future__ import annotations

from .run_events import EventLog, append_event, append_queued

__all__ = ["EventLog", "append_event", "append_queued"]
