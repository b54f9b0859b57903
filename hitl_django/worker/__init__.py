"""Execution of runs by workers, the sweep, retention, and supervision of worker processes."""

from __future__ import annotations

from .runner import advance, advance_due
from .sweeper import sweep

__all__ = ["advance", "advance_due", "sweep"]
