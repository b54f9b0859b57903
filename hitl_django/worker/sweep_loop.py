"""The loop of ``hitl worker`` if the command only sweeps, because a queue has its own workers."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import close_old_connections, connections

from hitl_django import services
from hitl_django.conf import hitl

from .child_process import Stopped, StopSignals
from .health_file import HealthFile
from .sweeper import sweep

logger = logging.getLogger("hitl_django")

#: Seconds between two checks for runs that resume when the time limit for an undo has passed.
TICK = 1.0


class Sweeper:
    """A loop that runs sweeps until a signal stops this process.

    The loop is used if ``hitl worker`` doesn't start the workers of the queue.
    """

    def __init__(self, say: Callable[[str], None], health: HealthFile) -> None:
        self.say, self.health = say, health

    def run(self) -> None:
        """Run three sweeps per SWEEP_SECONDS until a signal stops this process."""
        listener = StopSignals()
        self.say("Sweeping only: the queue in HITL['DISPATCH'] has its own workers.")
        try:
            with listener.installed():
                while True:
                    self._act(listener, sweep)
                    left = hitl.SWEEP_SECONDS / 3
                    while hitl.UNDO_SECONDS and left > TICK:
                        listener.sleep(TICK)
                        left -= TICK
                        self._act(listener, services.resume_due)
                    listener.sleep(left)
        except Stopped as stopped:
            self.say(f"Stopped by {stopped}.")
        finally:
            self.health.remove()
            connections.close_all()

    def _act(self, listener: StopSignals, act: Callable[[], object]) -> None:
        close_old_connections()
        with listener.deferred():  # A sweep that has started is completed.
            try:
                act()
                is_ready = True
            except Exception:
                logger.exception("the sweep failed")
                is_ready = False
                connections.close_all()
            self.health.write(is_ready=is_ready)
