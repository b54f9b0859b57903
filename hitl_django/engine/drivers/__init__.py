"""The two drivers of the engine's loop: one for OS threads and one for asyncio.

The loop yields effects: objects that describe an I/O operation, such as "run these tasks" or "store
this checkpoint". A driver performs them. All changes of the loop's state and all saver calls happen
on the driver's own OS thread or event loop. A task on another OS thread reports its outcome to the
driver. A subgraph on another OS thread sends its saver calls to the driver. If a super-step has a
single task, the task runs without a separate OS thread.
"""

from __future__ import annotations

from .asyncio_driver import AsyncDriver, arun_query
from .direct import run_query
from .thread_driver import SyncDriver

__all__ = ["AsyncDriver", "SyncDriver", "arun_query", "run_query"]
