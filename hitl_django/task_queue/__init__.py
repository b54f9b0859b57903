"""Task queue: dispatcher, heartbeats of workers, and the pipe from workers to the supervisor."""

from __future__ import annotations
