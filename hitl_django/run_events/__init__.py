"""Events of runs, stored together with the changes that they describe.

run_events.py      the events of a run, with consecutive numbers
message_events.py  output of models as events
redaction.py       values as limited JSON without secrets
"""

from __future__ import annotations

from .run_events import EventLog, append_event, append_queued, store_also

__all__ = ["EventLog", "append_event", "append_queued", "store_also"]
