"""The worker: advances runs, sweeps, deletes old threads, and supervises worker processes."""

from __future__ import annotations

from .runner import advance
from .sweeper import sweep

__all__ = ["advance", "sweep"]
