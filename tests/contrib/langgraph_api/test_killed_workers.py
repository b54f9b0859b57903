"""Workers killed with SIGKILL during a stream: the client sees one stream, in every mode.

Each kill has its own process and run. All runs are streamed concurrently.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import connection

from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph_api.bodies import STORED_MODES
from hitl_django.models import Run
from hitl_django.worker import runner
from tests import processes
from tests.chaos import recovery
from tests.chaos.crash_points import SIDES

from . import stream_victim

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

PLAN = {
    **recovery.IMPATIENT,
    "DISPATCH": "tests.contrib.langgraph_api.test_streams.Nobody",
    "EVENT_POLL_SECONDS": 0.05,
    "EVENT_WAIT_SECONDS": recovery.PATIENCE,  # longer than the other kills take on any machine
    "EVENT_MAX_WAITING_THREADS": 400,
}


@pytest.fixture
def talk(client: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return LangGraph's client for a server whose runs need a worker."""
    settings.HITL = PLAN
    monkeypatch.setattr(message_buffer, "SECONDS", 0)
    stream_victim.register_talk()
    return client


def follow(client: Any, started: Any) -> list[Any]:
    """Start a run, read its stream, and report the id of the run."""
    parts = []
    for part in client.runs.stream(None, "talk", input={"said": []}, stream_mode=[*STORED_MODES]):
        if part.event == "metadata":
            started.put(part.data["run_id"])
        parts.append(part)
    return parts


def settle() -> None:
    """Let another worker execute each run until all runs have ended, as their leases expire."""
    deadline = time.monotonic() + recovery.PATIENCE
    while Run.objects.filter(state__in=Run.ACTIVE).exists():
        assert time.monotonic() < deadline, list(Run.objects.values("state", "error"))
        for run in Run.objects.filter(state__in=Run.ACTIVE):
            runner.advance(str(run.pk))
        threading.Event().wait(0.02)


def count_commits(client: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any]:
    """Return the number of commits of a run without kills, and its stream."""
    commits = []
    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as pool:
        act = DjangoSaver.commit_all
        patched.setattr(
            DjangoSaver, "commit_all", lambda self, made: (commits.append(1), act(self, made))[1]
        )
        started: SimpleQueue[str] = SimpleQueue()
        stream = pool.submit(follow, client, started)
        runner.advance(started.get(timeout=60))
        return len(commits), stream.result(60)


def read_mode(parts: list[Any], mode: str) -> list[str]:
    """Return the parts of a stream in one mode, without ids of the run."""
    found = [part.data for part in parts if part.event == mode.removesuffix("-tuple")]
    if mode == "messages-tuple":
        return sorted(read_messages(found))
    if mode == "tasks":
        found = [(each["name"], each.get("input"), each.get("result")) for each in found]
    if mode == "checkpoints":
        found = [(each["metadata"]["step"], each["next"], each["values"]) for each in found]
    return sorted(map(repr, found))


def read_messages(found: list[Any]) -> Iterator[str]:
    """Yield messages of models, without messages of tasks that another worker repeated."""
    tasks: dict[str, dict[int, str]] = {}
    for message, metadata in found:
        attempts = tasks.setdefault(metadata["langgraph_checkpoint_ns"], {})
        attempt = metadata["run_attempt"]
        attempts[attempt] = attempts.get(attempt, "") + message["content"]
    for task, attempts in tasks.items():
        yield f"{task.partition(':')[0]} {attempts[max(attempts)]}"


@pytest.mark.parametrize("after", SIDES)
def test_langgraph_stream_across_worker_kill_at_any_commit_has_no_gaps_or_duplicates(
    after: bool, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, whole = count_commits(talk, monkeypatch)
    assert count > 10
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    with ThreadPoolExecutor(count) as pool:
        started: SimpleQueue[str] = SimpleQueue()
        streams = [pool.submit(follow, talk, started) for _ in range(count)]
        runs = [started.get(timeout=60) for _ in streams]
        process = processes.start(partial(stream_victim.die_in_each, after=after), runs, theirs)
        assert ours.poll(processes.PATIENCE)
        assert ours.recv() > 10
        process.join(processes.PATIENCE)
        settle()
        found = [stream.result(60) for stream in streams]
    connection.close()

    wanted = {mode: read_mode(whole, mode) for mode in STORED_MODES}
    assert all(wanted.values())
    for parts in found:
        numbers = [int(part.id) for part in parts if part.event != "end"]
        assert numbers == sorted(set(numbers))
        assert [part.event for part in parts].count("metadata") == 1
        assert {mode: read_mode(parts, mode) for mode in STORED_MODES} == wanted
