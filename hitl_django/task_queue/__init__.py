"""The task queue: hints that a run is due, worker heartbeats, and the pipe to the supervisor."""

from __future__ import annotations
