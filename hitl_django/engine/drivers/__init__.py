"""The two drivers of the loop: one on threads, one on asyncio.

A driver performs effects and nothing else. Only its own thread (or event loop) changes the loop's
state or calls the saver: tasks on other threads hand in their outcome, and a graph that such a
task runs has its saver calls made here. A single task runs inline, without a thread.
"""

from __future__ import annotations

from .asyncio_driver import AsyncDriver, arun_query
from .direct import run_query
from .thread_driver import SyncDriver

__all__ = ["AsyncDriver", "SyncDriver", "arun_query", "run_query"]
