"""Transactions that the database rolls back for a conflict are retried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.models import F

from hitl_django import leases, run_leases, services
from hitl_django.db import retry
from hitl_django.db.retry import retry_on_conflict
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.worker import runner
from tests.chaos import invariants

pytestmark = pytest.mark.django_db(transaction=True)


class Conflict(Exception):
    """Driver error about a rolled-back transaction."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def conflict(code: str = "40001") -> None:
    raise OperationalError(code) from Conflict(code)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST", 0)


@pytest.mark.parametrize("code", retry.CODES)
def test_serialization_conflict_is_retried_up_to_the_maximum_number_of_attempts(code: str) -> None:
    tries: list[str] = []

    @retry_on_conflict
    def act(word: str, *, times: int) -> str:
        tries.append(word)
        if len(tries) <= times:
            conflict(code)
        return word

    assert act("done", times=3) == "done"
    assert tries == ["done"] * 4
    with pytest.raises(OperationalError, match=code):
        act("never", times=1000)
    assert len(tries) == 4 + retry.MOST + 1


def test_conflict_inside_outer_transaction_is_not_retried() -> None:
    tries: list[int] = []

    @retry_on_conflict
    def act() -> None:
        tries.append(1)
        conflict()

    with pytest.raises(OperationalError), transaction.atomic():
        act()
    assert len(tries) == 1


@pytest.mark.parametrize("code", ["57P01", "", None])
def test_database_error_other_than_conflict_is_not_retried(code: Any) -> None:
    tries: list[int] = []

    @retry_on_conflict
    def act() -> None:
        tries.append(1)
        conflict(code)

    with pytest.raises(OperationalError):
        act()
    assert len(tries) == 1


@pytest.fixture
def repeatable(settings: Any) -> Iterator[None]:
    """Make this connection begin its transactions as REPEATABLE READ."""
    begin = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}"
    with connection.cursor() as cursor:
        cursor.execute(begin.format("REPEATABLE READ"))
    yield
    with connection.cursor() as cursor:
        cursor.execute(begin.format("READ COMMITTED"))


def elsewhere(act: Callable[[], object]) -> None:
    """Call a function on a separate connection, and wait for its end."""

    def do() -> None:
        try:
            act()
        finally:
            connections.close_all()

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def touch() -> None:
    Thread.objects.update(attempts=F("attempts"))


@pytest.mark.database("postgresql")
@pytest.mark.promise("P1")
@pytest.mark.usefixtures("repeatable")
def test_decision_conflicting_with_concurrent_write_is_retried_and_stored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = services.start("approval", {"text": "x"}).id
    runner.advance(str(run))
    interrupt = Interrupt.objects.get()
    Interrupt.objects.update(quorum=2)  # locks the thread first
    seen: list[int] = []
    lock = leases.lock_thread

    def look_and_lock(**which: Any) -> Thread:
        seen.append(Thread.objects.count())  # from here on, the transaction sees no new rows
        if len(seen) < 3:
            elsewhere(touch)
        return lock(**which)

    monkeypatch.setattr(leases, "lock_thread", look_and_lock)
    assert not services.decide(interrupt.pk, "approve").complete
    assert len(seen) == 3
    assert Decision.objects.count() == 1
    assert invariants.faults() == []


@pytest.mark.database("postgresql")
@pytest.mark.promise("P10")
@pytest.mark.usefixtures("repeatable")
def test_worker_commit_conflicting_with_concurrent_write_is_retried_and_stored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = services.start("panel", {"log": []}).id
    runner.advance(str(run))
    for interrupt in Interrupt.objects.order_by("task_path")[:1]:
        services.decide(interrupt.pk, "respond", "L")
    seen: list[int] = []
    guard = run_leases.RunFence.guard

    def touch_and_guard(fence: Any, batch: Any, outcome: Any) -> None:
        guard(fence, batch, outcome)
        run_it = batch.run

        def look_and_run() -> Any:
            if connection.in_atomic_block and len(seen) < 2:
                seen.append(Thread.objects.count())
                elsewhere(touch)
            return run_it()

        batch.run = look_and_run

    monkeypatch.setattr(run_leases.RunFence, "guard", touch_and_guard)
    runner.advance(str(run))
    assert len(seen) == 2
    assert (Run.objects.get().state, Thread.objects.get().attempts) == ("interrupted", 0)
    assert invariants.faults() == []
