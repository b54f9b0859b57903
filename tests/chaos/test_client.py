"""An HTTP client that finishes many runs while servers and workers are killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import InterfaceError, OperationalError, close_old_connections
from django_q.models import OrmQ

from hitl_django.models import Run, RunEvent
from hitl_django.worker.sweeper import sweep
from tests import processes
from tests.api.servers import PASSWORD, USER, Client, Server

from . import invariants, recovery
from .graphs import EMPTY, SHAPES, Effects, Recording, end_of, reply

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
]

#: Maximum number of runs that are followed concurrently.
AT_ONCE = 16


def work(marks: Path) -> None:
    """Do all available work, and never return."""
    Recording.effects = Effects(marks)
    while True:
        close_old_connections()
        try:
            if OrmQ.objects.count() < AT_ONCE:
                sweep()
            if not recovery.deliver(most=20):
                threading.Event().wait(0.02)
        except (OperationalError, InterfaceError):
            pass  # a project's worker would be restarted


class Crew:
    """Two workers, one of which may be killed at any time and is replaced."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks
        self.alive = [processes.start(work, marks) for _ in range(2)]
        self.killed = 0

    def kill(self, place: int) -> None:
        processes.kill(self.alive[place])
        self.killed += 1
        self.alive[place] = processes.start(work, self.marks)

    def dismiss(self) -> None:
        while self.alive:
            processes.kill(self.alive.pop())


@pytest.fixture(autouse=True)
def patient_with_failures(settings: Any) -> None:
    # On a slow machine, several workers may claim a run before it makes progress.
    settings.HITL = {**recovery.IMPATIENT, "MAX_ATTEMPTS": 1000}


@pytest.fixture
def crew(effects: Effects) -> Iterator[Crew]:
    crew = Crew(effects.path)
    yield crew
    crew.dismiss()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    get_user_model().objects.create_superuser(USER, password=PASSWORD)
    server = Server(
        "uvicorn", tmp_path / "log", THROTTLE_READ=None, THROTTLE_START=None, THROTTLE_DECIDE=None
    )
    yield server
    server.stop()


def insist(act: Callable[[], tuple[int, Any]], *wanted: int) -> Any:
    """Repeat an idempotent request until the server responds."""
    while True:
        try:
            status, body = act()
        except (OSError, HTTPException):  # the connection failed or was closed early
            threading.Event().wait(0.05)
            continue
        assert status in wanted, (status, body)
        return body


def take_to_its_end(client: Client, key: str, shape: str) -> tuple[str, list[dict[str, Any]]]:
    """Start a run, respond to its interrupts, and return its id and all of its events."""
    body = {"graph": shape, "input": EMPTY, "key": key}
    run = insist(lambda: client.post("runs/", body), 202, 200)["id"]
    told = []
    for event in client.follow(run):
        told.append(event)
        for interrupt in event["data"].get("interrupts", ()):
            asked = insist(lambda pk=interrupt: client.get(f"interrupts/{pk}/"), 200)
            answer = {"type": "respond", "value": reply(asked["payload"])}
            path = f"interrupts/{interrupt}/decisions/"
            # 409: the first copy of this event has already led to a response.
            insist(
                lambda path=path, answer=answer: client.post(
                    path, answer, **{"Idempotency-Key": "client"}
                ),
                202, 200, 409,
            )  # fmt: skip
    return run, told


@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
def test_runs_decided_over_http_end_once_although_workers_and_server_are_killed(
    effects: Effects,
    crew: Crew,
    server: Server,
    amount: Callable[[int, int], int],
    chance: Random,
    figures: Callable[[str], None],
) -> None:
    count = amount(36, 1000)
    ended = threading.Semaphore(0)

    def one(number: int) -> tuple[str, list[dict[str, Any]]]:
        shape = list(SHAPES)[number % len(SHAPES)]
        found = take_to_its_end(Client(server), f"client-{number}", shape)
        ended.release()
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        following = [pool.submit(one, number) for number in range(count)]
        for number in range(count):
            while not ended.acquire(timeout=1):
                failed = [one for one in following if one.done() and one.exception()]
                assert not failed, failed[0].exception()
            if number % (count // 6) == count // 12:
                crew.kill(chance.randrange(2))
            if number == count // 2:
                server.kill()
        told = dict(future.result() for future in following)
    crew.dismiss()

    assert crew.killed >= 6
    assert len(told) == Run.objects.filter(state="succeeded").count() == count
    for run, events in told.items():
        stored = RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", "kind")
        assert [(event["seq"], event["kind"]) for event in events] == list(stored)
        assert [event["kind"] for event in events].count("succeeded") == 1
    shapes = {run.thread_id: run.graph for run in Run.objects.all()}
    for record in invariants.records():
        assert list(invariants.faults_of(record, effects)) == []
        shape = shapes[record.thread.pk]
        assert len(invariants.tasks_of(record)) == end_of(shape)[0]
        assert len(record.decisions) == len(end_of(shape)[1])
    figures(
        f"{count} runs finished over HTTP while {crew.killed} workers and a server were "
        "killed: each run ended once, with one final event"
    )
