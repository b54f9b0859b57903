"""The two drivers of the loop: one for OS threads and one for asyncio.

A driver performs the effects requested by the loop. Only the driver's own OS thread or event loop
changes the loop's state and calls the saver. Tasks on other OS threads report their outcome to the
driver. The driver also makes the saver calls of subgraphs that run on such OS threads. If a step
has a single task, the task runs without a separate OS thread.
"""

from __future__ import annotations

from .asyncio_driver import AsyncDriver, arun_query
from .direct import run_query
from .thread_driver import SyncDriver

__all__ = ["AsyncDriver", "SyncDriver", "arun_query", "run_query"]
