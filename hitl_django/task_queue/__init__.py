"""Task queue: dispatcher, worker heartbeats, and the pipe to the supervisor."""

from __future__ import annotations
