"""A worker process that stops at a chosen point, says so, and waits for what is done to it."""

from __future__ import annotations

import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.db import connections  # noqa: E402
from django.test import override_settings  # noqa: E402

from hitl_django import worker  # noqa: E402
from hitl_django.engine.checkpoint import Commit  # noqa: E402
from hitl_django.saver import DjangoSaver, Writing  # noqa: E402

#: Short enough for a test to wait for, long enough for a worker that lives.
IMPATIENT = {"LEASE_SECONDS": 1, "HEARTBEAT_SECONDS": 0.3, "SWEEP_SECONDS": 0.05}


#: In the place of a number: the commit with which the run pauses or ends.
LAST = 0


class Point:
    """Before, within or just after one commit of the run; the process says so and waits there."""

    def __init__(self, when: str, nth: int, here: Any) -> None:
        self.when, self.nth, self.here = when, nth, here
        self.count = 0
        self.is_here = False

    def reach(self, commit: Commit) -> None:
        self.count += 1
        self.is_here = self.count == self.nth or (self.nth == LAST and commit.outcome is not None)

    def stop(self, when: str) -> None:
        if self.is_here and self.when == when:
            self.here.send(os.getpid())
            self.here.recv()


def work(database: str, run: str, when: str, nth: int, here: Any) -> None:
    """Advance the run, with a stop just before, within or just after its n-th commit."""
    connections["default"].settings_dict["NAME"] = database
    point = Point(when, nth, here)
    commit, write = DjangoSaver.commit, Writing.run

    def stopping_commit(saver: DjangoSaver, made: Commit) -> None:
        point.reach(made)
        point.stop("before")
        commit(saver, made)
        point.stop("after")

    def stopping_run(writing: Writing) -> Any:
        found = write(writing)
        point.stop("within")  # all rows are written, and the transaction is still open
        return found

    DjangoSaver.commit = stopping_commit  # type: ignore[method-assign]
    Writing.run = stopping_run  # type: ignore[method-assign]
    if when == "within":
        # One statement that is a transaction by itself has no such point: it is taken apart.
        Writing._is_one = lambda *args: False  # type: ignore[method-assign]
    with override_settings(HITL=IMPATIENT):
        worker.advance(run)
    here.send(0)
