"""Work of a process until it is killed: complete runs, or any available work."""

from __future__ import annotations

import logging
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from django.contrib.auth import get_user_model
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.backends.signals import connection_created
from django_q.models import OrmQ

from hitl_django import run_leases, services
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep

from . import recovery
from .graphs import EMPTY, EVERY_SHAPE, Effects, Recording, reply

CRASHED = 9


class Bomb:
    """Ends the process just before or just after its n-th statement.

    Django's cursor executes all statements, including prepared ones. A COMMIT isn't a statement
    here: a kill after the last statement of a transaction is before the COMMIT, and a kill before
    the first statement of the next transaction is after it.
    """

    def __init__(self, nth: int, after: bool) -> None:
        self.nth, self.after, self.count = nth, after, 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        if self.count == self.nth and not self.after:
            os._exit(CRASHED)
        result = execute(sql, params, many, context)
        if self.count == self.nth:
            os._exit(CRASHED)
        return result


@contextmanager
def armed(bomb: Bomb) -> Iterator[None]:
    """Count the statements of this process on all connections."""

    def arm(connection: Any, **about: Any) -> None:
        if bomb not in connection.execute_wrappers:
            connection.execute_wrappers.append(bomb)

    connection_created.connect(arm)
    try:
        with connection.execute_wrapper(bomb):
            yield
    finally:
        connection_created.disconnect(arm)


def live(shape: str, key: str, marks: Path, nth: int, after: bool) -> None:
    """Start a run, and work and respond until the run has ended or the process is killed at its
    n-th statement.
    """
    Recording.effects = Effects(marks)
    with armed(Bomb(nth, after)):
        run = services.start(shape, EMPTY, key=key).id
        runner.advance(str(run))
        while recovery.answer([run]):
            runner.advance(str(run))


#: Number of runs that are active at any time.
BUSY = 12


def toil(marks: Path, seed: int, ready: Any) -> None:
    """Do all available work in random order, and start new work.

    This function never returns.
    """
    Recording.effects = Effects(marks)
    runner.TURN = 0.1
    chance = Random(seed)
    connection.ensure_connection()
    ready.send(os.getpid())
    while True:
        close_old_connections()  # django-q2 also does this between two tasks.
        try:
            if Run.objects.filter(state__in=Run.ACTIVE).count() < BUSY:
                services.start(chance.choice(EVERY_SHAPE), EMPTY)
            # In this test, a sweep sends messages for all waiting runs. Too many messages would
            # delay the runs.
            if OrmQ.objects.count() < BUSY:
                sweep()
            if chance.random() < 0.5:
                runner.advance_due()
            recovery.deliver(most=chance.randrange(1, 4))
            recovery.answer(most=chance.randrange(3))
        except (OperationalError, InterfaceError):
            pass  # The connection was lost, like that of a failed request in a project.


def insist(shape: str, key: str, marks: Path, told: Any) -> None:
    """Execute a run to its end over an unreliable connection, repeating all failed calls."""
    Recording.effects = Effects(marks)
    logging.disable(logging.CRITICAL)
    failures = 0

    def again(act: Callable[[], Any]) -> Any:
        nonlocal failures
        while True:
            close_old_connections()
            try:
                return act()
            except (OperationalError, InterfaceError):
                failures += 1

    run = again(lambda: services.start(shape, EMPTY, key=key)).id
    while again(lambda: Run.objects.get(pk=run)).state != Run.State.SUCCEEDED:
        again(lambda: runner.advance(str(run)))
        for pk, interrupt in again(
            lambda: list(
                Interrupt.objects.filter(run=run, status="pending").values_list("pk", "payload")
            )
        ):
            again(
                lambda pk=pk, interrupt=interrupt: services.decide(
                    pk, "respond", reply(interrupt), key="the reviewer's"
                )
            )
    told.send(failures)


class Stop:
    """Stops at the n-th call, reports it, and waits until told to continue."""

    def __init__(self, nth: int, told: Any) -> None:
        self.nth, self.told, self.count = nth, told, 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.nth:
            self.told.send("here")
            self.told.recv()


def freeze(run: str, where: str, nth: int, marks: Path, told: Any) -> None:
    """Execute the run with a stop at the n-th point of this kind, and report the worker's log."""
    Recording.effects = Effects(marks)
    stop = Stop(nth, told)
    claim, write = run_leases.claim, WriteBatch.commit
    commit, begin = DjangoSaver.commit_all, DjangoSaver.begin_commit

    def claim_and_stop(run_id: str) -> Any:
        lease = claim(run_id)
        stop()
        return lease

    def stop_and_commit(saver: DjangoSaver, made: Any) -> None:
        stop()
        commit(saver, made)

    def stop_and_begin(saver: DjangoSaver, made: Any) -> Any:
        begun = begin(saver, made)
        if begun is not None:
            stop()
        return begun

    def write_and_stop(batch: WriteBatch, **how: Any) -> Any:
        batch.before_commit(stop)  # All rows are written, and the transaction is still open.
        return write(batch, **how)

    if where == "node":
        Recording.at_begin = lambda name: stop()
    elif where == "claim":
        run_leases.claim = claim_and_stop
    elif where == "commit":
        DjangoSaver.commit_all = stop_and_commit  # type: ignore[method-assign]
        DjangoSaver.begin_commit = stop_and_begin  # type: ignore[method-assign]
    else:
        WriteBatch.commit = write_and_stop  # type: ignore[method-assign]

    said: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hitl_django").addHandler(listener)
    runner.advance(run)
    told.send(said)


def look(marks: Path, told: Any) -> None:
    """Execute all available runs until a given run has reached its interrupt."""
    Recording.effects = Effects(marks)
    connection.ensure_connection()
    told.send("looking")
    awaited = None
    while awaited is None or recovery.state_of(awaited) != Run.State.INTERRUPTED:
        sweep()
        recovery.deliver()
        if awaited is None and told.poll():
            awaited = told.recv()


def die_in(run: str, node: str, marks: Path) -> None:
    Recording.effects = Effects(marks)
    Recording.at_begin = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == node else None
    runner.advance(run)


def starve(run: str, node: str, other: str) -> None:
    """Execute a run with a function that exceeds the memory limit, and then another run."""
    hoard: list[bytearray] = []

    def eat(name: str) -> None:
        while name == node:
            hoard.append(bytearray(1 << 26))

    Recording.at_begin = eat
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), most))
    runner.advance(run)
    hoard.clear()
    Recording.at_begin = None
    runner.advance(other)


def fork(thread: str, checkpoint: str, nth: int, after: bool) -> None:
    with connection.execute_wrapper(Bomb(nth, after)):
        services.fork(thread, checkpoint)


def vote(interrupt: str, given: dict[str, Any], number: int, nth: int, after: bool) -> None:
    person = get_user_model().objects.get(username=f"voter-{number}")
    with connection.execute_wrapper(Bomb(nth, after)):
        services.decide(interrupt, **given, by=person, key="once")


def advance(run: str, nth: int, after: bool) -> None:
    with armed(Bomb(nth, after)):
        runner.advance(run)
        while recovery.deliver():
            pass


def call(act: Callable[[], object], nth: int, after: bool) -> None:
    with connection.execute_wrapper(Bomb(nth, after)):
        act()
