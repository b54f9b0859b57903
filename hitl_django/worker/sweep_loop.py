"""Sweeps until a signal asks for the end, where the queue has workers of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import close_old_connections, connections

from hitl_django.conf import hitl

from .child_process import Stopped, StopSignals
from .sweeper import sweep

logger = logging.getLogger("hitl_django")


class Sweeper:
    """Sweeps until somebody stops it, for a queue that brings workers of its own."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def run(self) -> None:
        """Sweep three times in SWEEP_SECONDS until a signal asks for the end."""
        listener = StopSignals()
        self.say("Sweeping. The queue that HITL['DISPATCH'] names has workers of its own.")
        try:
            with listener.installed():
                while True:
                    close_old_connections()
                    with listener.deferred():  # what a sweep has begun it ends
                        self._sweep()
                    listener.sleep(hitl.SWEEP_SECONDS / 3)
        except Stopped as stopped:
            self.say(f"Stopped by {stopped}.")
        finally:
            connections.close_all()

    def _sweep(self) -> None:
        try:
            sweep()
        except Exception:
            logger.exception("the sweep failed")
            connections.close_all()
