"""LangGraph's client with real servers, one of which is killed during a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from langgraph_sdk import get_sync_client

from hitl_django import services
from hitl_django.contrib.langgraph_api.run_streams import RunStream
from hitl_django.models import Interrupt, Run, RunEvent
from hitl_django.services import EventReader
from hitl_django.worker import runner
from tests.api.servers import HOST, PASSWORD, USER, Client, Server
from tests.chaos.graphs import EMPTY, reply

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]
MODES = ["values", "updates", "tasks", "checkpoints"]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []
    get_user_model().objects.create_superuser(USER, password=PASSWORD)

    def start(kind: str, **hitl: Any) -> Server:
        started.append(Server(kind, tmp_path / "log", EVENT_POLL_SECONDS=0.02, **hitl))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def connect(server: Server) -> Any:
    address = f"http://{HOST}:{server.port}/agent"
    return get_sync_client(url=address, api_key=None, headers=Client(server).headers)


def work() -> None:
    runner.advance(str(Run.objects.get().pk))


def shown(run: Run) -> list[str]:
    """Return the numbers of the events in a stream of all modes.

    If the run resumes after an interrupt, it has two streams. One of the numbers is that of the
    pause.
    """
    kinds = ["queued", "interrupted", *MODES]
    found = RunEvent.objects.filter(run=run, kind__in=kinds).order_by("seq")
    return [str(seq) for seq in found.values_list("seq", flat=True)]


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_langgraph_stream_across_server_kill_has_no_gaps_or_duplicates(
    kind: str, serve: Any
) -> None:
    server = serve(kind)
    with connect(server) as client:
        seen = []
        for part in client.runs.stream(None, "chaos line", input=EMPTY, stream_mode=MODES):
            seen.append(part)
            if len(seen) == 1:
                server.kill()
                work()
        (interrupt,) = Interrupt.objects.filter(status="pending")
        thread = Run.objects.get().thread.thread_id
        answer = {"resume": {interrupt.interrupt_id: reply(interrupt.payload)}}
        for part in client.runs.stream(thread, "chaos line", command=answer, stream_mode=MODES):
            if part.event == "metadata":
                work()
            seen.append(part)
    run = Run.objects.get()
    assert [part.id for part in seen if part.event != "end"] == shown(run)
    assert [part.event for part in seen].count("end") == 2


def read_on(steps: Iterator[bytes | float], *, until: bytes) -> bytes:
    """Perform steps until they send this text or end, and return the sent texts."""
    sent = b""
    for step in steps:
        if isinstance(step, bytes):
            sent += step
        if until in sent:
            break
    return sent


@pytest.mark.parametrize("leaves", [False, True])
def test_langgraph_async_stream_ends_when_its_user_is_deactivated(
    leaves: bool, settings: Any
) -> None:
    settings.HITL = {"EVENT_POLL_SECONDS": 0.0}
    user = get_user_model().objects.create_superuser(USER)
    run = services.start("chaos line", EMPTY)
    reader = EventReader(run.id, by=user, to_rest=True)
    steps = RunStream(reader, user, 0, None, subgraphs=False, stays=True).steps(0.01)
    assert b"event: metadata" in read_on(steps, until=b"metadata")
    deadline = time.monotonic() + 0.05
    while time.monotonic() < deadline:  # several times as long as a response may take
        next(steps)
    get_user_model().objects.update(is_active=not leaves)
    if leaves:
        assert read_on(steps, until=b"event: end") == b""
    else:
        work()
        assert b"event: end" in read_on(steps, until=b"event: end")
