"""A supervisor: runs the queue's worker processes, and starts them anew when they no longer work.

A cluster that is all there may do nothing: a worker killed while it waits for a task takes the lock
of the queue along. So nothing is concluded from processes being alive, only from what they say
they do (``pulse``) after something was there to be done. The supervisor also sweeps by itself, more
often than the queue's own schedule can.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from django.conf import settings
from django.core import checks
from django.db import close_old_connections, connections

from hitl_django.conf import hitl
from hitl_django.task_queue import dispatcher
from hitl_django.task_queue.supervisor_pipe import Pipe, Pulse

from .child_process import Child, Listener, Program, Stopped
from .sweeper import still_due, sweep

logger = logging.getLogger("hitl_django")

#: Seconds after which work that nobody takes up, or a result that nobody settles, is a standstill.
PATIENCE = 10.0
#: Seconds for processes that stand still to stop by themselves, which they mostly can't.
LAST_CHANCE = 5.0
#: Seconds between two looks.
TICK = 1.0
#: Seconds in which words gather: busy workers say some for each task, and this process would wake
#: as often.
BREATH = 0.1
#: Seconds between two starts at least, doubled up to the longest while they come to nothing.
SHORTEST, LONGEST = 1.0, 30.0


class Watch:
    """What the workers have said, and what follows from their silence."""

    def __init__(self) -> None:
        self.busy: dict[int, float] = {}
        self.told: tuple[float, Sequence[UUID]] | None = None
        self.unsettled: float | None = None

    def hear(self, pulse: Pulse, now: float) -> None:
        """Notes what a process says."""
        if pulse.word == "settled":
            self.unsettled = None
            return
        self.told = None
        if pulse.word == "busy":
            self.busy[pulse.pid] = now + pulse.seconds if pulse.seconds else float("inf")
            return
        self.busy.pop(pulse.pid, None)
        self.unsettled = now if self.unsettled is None else self.unsettled

    def tell(self, runs: Sequence[UUID], now: float) -> None:
        """Notes that the workers were told of runs that wait."""
        if runs and self.told is None:
            self.told = now, runs

    def excuse(self) -> None:
        """Forgets what was missed: nobody could do it."""
        self.told = self.unsettled = None

    def complaint(self, now: float) -> str | None:
        """Says why the processes should be started anew, or None."""
        is_owed = self.unsettled is not None and now - self.unsettled >= PATIENCE
        if is_owed and not _broker_is_down():
            return "tasks are carried out, but their results are not taken in"
        if self.told is None or now - self.told[0] < PATIENCE or self._someone_is_busy(now):
            return None
        told, self.told = self.told, None
        # On a queue that several hosts share, another one may have taken them up.
        if still_due(told[1]) and not _broker_is_down():
            return "a run waits, and no worker takes it up"
        return None

    def _someone_is_busy(self, now: float) -> bool:
        self.busy = {
            pid: until for pid, until in self.busy.items() if until > now and is_there(pid)
        }
        return bool(self.busy)


class Supervisor:
    """Keeps one queue's processes running until somebody stops it."""

    def __init__(self, command: Sequence[str], grace: float, say: Callable[[str], None]) -> None:
        self.command, self.grace, self.say = command, grace, say
        self.listener = Listener()
        self._swept = -float("inf")

    def run(self) -> None:
        """Run until a signal asks for the end; then the processes end in order."""
        delay = SHORTEST
        try:
            with self.listener.installed():
                while True:
                    began = time.monotonic()
                    logger.error("worker processes: %s; starting them anew", self._run_once())
                    if time.monotonic() - began > LONGEST:
                        delay = SHORTEST
                    self.listener.sleep(delay)
                    delay = min(2 * delay, LONGEST)
        except Stopped as stopped:
            self.say(f"Stopped by {stopped}.")
        finally:
            connections.close_all()

    def _run_once(self) -> str:
        """Run the processes until something is wrong with them; return what."""
        pipe, child, grace = Pipe(), None, self.grace
        try:
            with self.listener.holding():  # one that was started but not noted would stay behind
                child = Child(self._program(pipe))
            self.say(f"Started {' '.join(self.command)}, process {child.process.pid}.")
            reason = self._watch(child, pipe)
            grace = min(grace, LAST_CHANCE)
            return reason
        finally:
            with self.listener.holding():
                if child is not None:
                    self._stop(child, grace)
                pipe.close()

    def _watch(self, child: Child, pipe: Pipe) -> str:
        watch = Watch()
        while (code := child.ended()) is None:
            select.select([pipe.reading], [], [], TICK)
            self.listener.sleep(BREATH)
            now = time.monotonic()
            for pulse in pipe.heard():
                watch.hear(pulse, now)
            try:
                if now - self._swept >= hitl.SWEEP_SECONDS / 3:
                    self._swept = now
                    close_old_connections()
                    watch.tell(sweep(), now)
                if (complaint := watch.complaint(now)) is not None:
                    return complaint
            except Exception:
                # Without the database nobody can work, and there is nothing to start anew.
                logger.exception("the supervisor can't look after runs")
                watch.excuse()
                connections.close_all()
        return f"ended by themselves with code {code}"

    def _stop(self, child: Child, grace: float) -> None:
        # Only the main process may be told to end; it ends the others itself. All of them hear the
        # second signal: a worker leaves its run at the next edge, the rest don't know it.
        child.tell()
        child.tell_all(signal.SIGURG)
        child.wait(time.monotonic() + grace)
        child.tell_all(signal.SIGKILL)  # what outlived the main process would work on unseen

    def _program(self, pipe: Pipe) -> Program:
        return Program(
            "worker",
            [sys.executable, "-m", "django", *self.command],
            environment={
                **pipe.environment(),
                "DJANGO_SETTINGS_MODULE": str(settings.SETTINGS_MODULE),
                # Started as a module, Python would look for the project elsewhere.
                "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            },
            kept=[pipe.writing],
        )


def is_there(pid: int) -> bool:
    """Say whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _broker_is_down() -> bool:
    return any(found.level >= checks.CRITICAL for found in dispatcher.dispatcher().probe())
