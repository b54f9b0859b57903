"""OS threads that act as people: they start runs, decide interrupts and handle parked runs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from hitl_django import services
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, RunStateError
from hitl_django.models import Interrupt, Run

REVIEWERS = 8
MOST_INTERRUPTS = 5
ASKING = 0.3
#: Polling interval in seconds.
LOOK = 0.5


class Site:
    """The people of the site until the test stops, and the errors that they encountered."""

    def __init__(self, seed: int, rate: float, within: float) -> None:
        self.chance = Random(seed)
        self.rate, self.within = rate, within
        self.is_closed, self.is_over = threading.Event(), threading.Event()
        #: Set while all machines run the default version. The second attribute counts the
        #: deployments of the default version.
        self.is_deployed = threading.Event()
        self.is_deployed.set()
        self.deployments = 0
        #: Number of interrupts of each active run, by run id.
        self.under_way: dict[UUID, int] = {}
        self.started = self.answered = 0
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        # The number of the deployment in which a run was last retried.
        self._retried: dict[UUID, int] = {}
        self._failed: set[UUID] = set()
        self._threads = [
            threading.Thread(target=self._at_work, args=act, daemon=True)
            for act in [
                (self._start,),
                (self._operate,),
                *[(self._review, number) for number in range(REVIEWERS)],
            ]
        ]

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop starting runs. Deciding continues."""
        self.is_closed.set()

    def end(self) -> None:
        self.close()
        self.is_over.set()
        for thread in self._threads:
            thread.join()

    def _at_work(self, act: Callable[..., None], *args: Any) -> None:
        try:
            act(*args)
        except Exception as error:
            self.faults.append(f"{act.__name__}: {error!r}")
            raise
        finally:
            connection.close()

    def _start(self) -> None:
        while not self.is_closed.wait(self.chance.expovariate(self.rate)):
            asks = 0
            if self.chance.random() < ASKING:
                asks = self.chance.randint(1, MOST_INTERRUPTS)
            given = {"asks": asks, "total": 0, "tasks": [], "answers": []}
            key = f"number {self.started}"
            # With the same key, a repeated call returns the run if the first attempt succeeded.
            run = surely(lambda given=given, key=key: services.start("soak", given, key=key))
            self.under_way[run.id] = asks
            self.started += 1

    def _review(self, number: int) -> None:
        while not self.is_over.wait(LOOK):
            open_now = Interrupt.objects.filter(status="pending", run__state__in=Run.ANSWERABLE)
            pending = surely(lambda rows=open_now: list(rows.values_list("pk", "created_at")))
            for pk, created in pending:
                if number in answering(pk) and self._is_due(pk, created):
                    self._answer(pk, number)

    def _is_due(self, pk: UUID, created: Any) -> bool:
        after = Random(pk.int).uniform(0, self.within)
        return bool(timezone.now() >= created + timedelta(seconds=after))

    def _answer(self, pk: UUID, number: int) -> None:
        answer = {"at": time.time(), "by": number}

        def decide() -> Any:
            return services.decide(pk, "respond", answer, key=f"reviewer {number}")

        try:
            surely(decide)
        except (AlreadyDecidedError, RunStateError, InterruptNotFound) as error:
            self.counts[f"answers refused: {type(error).__name__}"] += 1
        else:
            self.answered += 1

    def _operate(self) -> None:
        while not self.is_over.wait(LOOK):
            if self.is_deployed.is_set():
                parked = Run.objects.filter(state=Run.State.PARKED).values_list("pk", "error")
                for pk, error in surely(lambda rows=parked: list(rows)):
                    self._look_after(pk, error)
            failed = Run.objects.filter(state=Run.State.FAILED).values_list("pk", "error")
            for pk, error in surely(lambda rows=failed: list(rows)):
                if pk not in self._failed:
                    self._failed.add(pk)
                    self.faults.append(f"run {pk} failed: {error}")

    def _look_after(self, pk: UUID, error: str) -> None:
        """Retry a parked run, or cancel it if it was already parked in this deployment."""
        self.counts[f"parked: {error.splitlines()[0][:60]}"] += 1
        # A thread that was paused with the graph structure of another version can't resume.
        is_lost = (
            "incompatible with the current structure" in error
            and self._retried.get(pk) == self.deployments
        )
        self._retried[pk] = self.deployments
        # RunStateError: the first attempt succeeded.
        with suppress(RunStateError):
            surely(lambda: (services.cancel if is_lost else services.retry)(pk))


def answering(pk: UUID) -> tuple[int, ...]:
    """Return the reviewers of an interrupt.

    Every tenth interrupt has two reviewers, all others have one.
    """
    first = pk.int % REVIEWERS
    return (first, (first + 1) % REVIEWERS) if pk.int % 10 == 0 else (first,)


def surely(act: Callable[[], Any]) -> Any:
    """Repeat the call while the database is unavailable."""
    while True:
        try:
            return act()
        except (OperationalError, InterfaceError):
            connection.close()
            threading.Event().wait(LOOK)
