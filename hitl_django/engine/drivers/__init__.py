"""The two drivers of the loop, one for OS threads and one for asyncio.

A driver only performs effects. Only its own OS thread or event loop changes the loop's state and
calls the saver. Tasks on other threads report their outcome. Saver calls of subgraphs on such
threads are made by the driver, too. A single task runs inline, without a separate thread.
"""

from __future__ import annotations

from .asyncio_driver import AsyncDriver, arun_query
from .direct import run_query
from .thread_driver import SyncDriver

__all__ = ["AsyncDriver", "SyncDriver", "arun_query", "run_query"]
