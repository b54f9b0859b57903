"""Workers that are frozen, replaced and continued: none of their later writes are stored."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from random import Random
from typing import Any

import psutil
import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from hitl_django import run_leases, services
from hitl_django.graph_registry.registry import DURABILITIES
from hitl_django.models import Checkpoint, Interrupt, PendingWrite, Run, Thread
from tests import processes

from . import invariants, recovery, victim
from .graphs import EMPTY, Effects, end_of, in_mode

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
    pytest.mark.promise("P10"),
]

#: Points at which a worker is frozen, and how often a run passes each before its first interrupt.
POINTS = {"claim": 1, "node": 2, "commit": 2}


class Frozen:
    """A process that is frozen while it executes a run."""

    def __init__(self, run: Any, where: str, nth: int, effects: Effects) -> None:
        self.pipe, theirs = processes.SERVER.Pipe()
        self.process = processes.start(victim.freeze, str(run), where, nth, effects.path, theirs)

    def stop(self, *, is_free: Callable[[], bool]) -> None:
        """Freeze the process and its heartbeat at the point, while no write lock is held."""
        assert self.pipe.poll(processes.PATIENCE)
        assert self.pipe.recv() == "here", "the run ended before the point was reached"
        while True:
            os.kill(self.process.pid, signal.SIGSTOP)
            while psutil.Process(self.process.pid).status() != psutil.STATUS_STOPPED:
                threading.Event().wait(0.001)
            if is_free():
                return
            os.kill(self.process.pid, signal.SIGCONT)

    def thaw(self) -> list[str]:
        """Let the process continue until it ends, and return its output."""
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send("go on")
        assert self.pipe.poll(processes.PATIENCE)
        said: list[str] = self.pipe.recv()
        self.process.join(processes.PATIENCE)
        assert self.process.exitcode == 0
        return said


def nobody_writes() -> bool:
    """Return whether SQLite's write lock is free.

    A process frozen during a heartbeat keeps it. PostgreSQL completes the statement without its
    client.
    """
    if connection.vendor != "sqlite":
        return True
    name = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(name, timeout=0.5, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        other.execute("ROLLBACK")
        return True


@pytest.fixture
def freezing(effects: Effects) -> Iterator[Callable[..., Frozen]]:
    """Return a function that starts a run in a process to be frozen."""
    begun: list[Frozen] = []

    def begin(run: Any, where: str, nth: int) -> Frozen:
        begun.append(Frozen(run, where, nth, effects))
        return begun[-1]

    yield begin
    for one in begun:
        if one.process.is_alive():
            processes.kill(one.process)


def everything() -> list[Any]:
    return [
        list(model.objects.order_by("pk").values())
        for model in (Thread, Run, Checkpoint, PendingWrite, Interrupt)
    ]


@pytest.mark.parametrize("where", POINTS)
def test_frozen_worker_that_continues_after_its_run_was_taken_over_stores_no_rows(
    where: str,
    effects: Effects,
    freezing: Callable[..., Frozen],
    amount: Callable[[int, int], int],
    chance: Random,
    figures: Callable[[str], None],
) -> None:
    rounds = amount(8, 50)
    frozen = []
    for number in range(rounds):
        mode = DURABILITIES[number % 3]
        most = 1 if (where, mode) == ("commit", "exit") else POINTS[where]
        run = services.start(in_mode("chaos line", mode), EMPTY).id
        frozen.append(freezing(run, where, chance.randint(1, most)))
    for one in frozen:
        one.stop(is_free=nobody_writes)
    recovery.settle()
    assert Run.objects.filter(state="succeeded").count() == rounds
    before = everything()

    for one in frozen:
        said = one.thaw()
        assert [line for line in said if "was taken over" in line] == said[-1:]
    assert everything() == before
    assert invariants.faults(effects=effects) == []
    for record in invariants.records():
        state = invariants.values_of(record, invariants.head_of(record))
        assert (state["total"], state["answers"]) == end_of("chaos line")
    figures(f"{len(frozen)} of {rounds} workers frozen at a {where} changed nothing afterwards")


@pytest.mark.parametrize("mode", DURABILITIES)
@pytest.mark.parametrize("where", POINTS)
def test_frozen_worker_that_continues_while_its_run_is_taken_over_stores_no_rows(
    where: str, mode: str, effects: Effects, freezing: Callable[..., Frozen]
) -> None:
    # The thread is leased, so only the epoch shows which worker has the lease.
    run = services.start(in_mode("chaos line", mode), EMPTY).id
    frozen = freezing(run, where, 1)
    frozen.stop(is_free=nobody_writes)
    leased = Thread.objects.filter(lease_until__isnull=False)
    leased.update(lease_until=Now() - timedelta(seconds=1))
    while run_leases.claim(run) is None:  # the last heartbeat was still in progress
        leased.update(lease_until=Now() - timedelta(seconds=1))
    before = everything()
    assert "was taken over" in frozen.thaw()[-1]
    assert everything() == before

    leased.update(lease_until=Now() - timedelta(seconds=1))
    recovery.settle()
    assert Run.objects.get().state == "succeeded"
    assert invariants.faults(effects=effects) == []


@pytest.mark.sessions
def test_worker_frozen_inside_transaction_blocks_other_writers_for_a_limited_time(
    effects: Effects, freezing: Callable[..., Frozen]
) -> None:
    options = connection.settings_dict["OPTIONS"]
    postgres = connection.vendor == "postgresql"
    # Recommended by the system check. On SQLite, the timeout of a waiting writer has the same role.
    given = {"options": "-c idle_in_transaction_session_timeout=3s"} if postgres else {"timeout": 1}
    run = services.start("chaos line", EMPTY).id
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setitem(options, name, value)
        frozen = freezing(run, "transaction", 2)
        frozen.stop(is_free=lambda: True)
        if postgres:
            recovery.settle()  # which waits for a transaction that stays open
        else:
            # SQLite has one writer at a time. The others get an error and may try again.
            with pytest.raises(OperationalError, match="locked"):
                services.start("chaos line", EMPTY)
        said = frozen.thaw()
        recovery.settle()
    connection.close()
    # PostgreSQL rolled back the transaction with its connection. On SQLite the transaction
    # continued.
    assert ["was taken over" in line for line in said[-1:]] == [True] * postgres
    assert invariants.faults(effects=effects) == []
    assert {run.state for run in Run.objects.all()} == {"succeeded"}
