"""A worker that is killed (-9) at each commit of a LangGraph graph: its events are as without.

Each point is a process and a run of its own, which takes some seconds a case.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from hitl_django import services
from hitl_django.contrib.langchain import message_buffer
from hitl_django.graph_registry import registry
from hitl_django.models import Run, RunEvent
from hitl_django.worker.sweeper import sweep
from tests import processes
from tests.chaos import recovery

from . import event_victim

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

#: What is another in each run.
_OWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:.+]+")


@pytest.fixture(autouse=True)
def impatient(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.HITL = recovery.IMPATIENT
    monkeypatch.setattr(message_buffer, "SECONDS", 0)
    with registry.hide_graphs():
        yield


def settle() -> None:
    """Lets sweeps, workers and the reviewer go on until all runs have ended."""
    deadline = time.monotonic() + recovery.PATIENCE
    while Run.objects.filter(state__in=Run.LIVE).exists():
        assert time.monotonic() < deadline, list(Run.objects.values("state", "error"))
        sweep()
        paused = Run.objects.filter(state="interrupted")
        answered = sum(event_victim.answer(run.pk) for run in paused)
        if not recovery.deliver() + answered:
            threading.Event().wait(0.02)


def read_events(run: Any) -> dict[str, list[str]]:
    """Returns a run's events by graph and kind, in their order, without what is its own.

    Tasks of one super-step end in any order, and so they are sorted; what they say of a task, or
    of a step, is one line.
    """
    told: dict[str, list[str]] = {}
    said: dict[str, dict[int, str]] = {}
    for event in RunEvent.objects.filter(run=run).order_by("seq"):
        if event.kind == "messages":
            message, metadata = event.data
            attempts = said.setdefault(metadata["langgraph_checkpoint_ns"], {})
            attempt = metadata["run_attempt"]
            attempts[attempt] = attempts.get(attempt, "") + message["content"]
        elif event.kind in event_victim.MODES:
            data: Any = event.data
            if event.kind == "checkpoints":
                data = [data["metadata"]["step"], data["next"], data["values"]]
            line = _OWN.sub("", json.dumps(data, sort_keys=True))
            kind = f"{event.kind} asking" if "__interrupt__" in line else event.kind
            told.setdefault(f"{_OWN.sub('', event.ns)} {kind}", []).append(line)
    for task, attempts in said.items():
        told.setdefault("messages", []).append(_OWN.sub("", task) + attempts[max(attempts)])
    ordered = ("values", "checkpoints")
    return {
        place: lines if place.endswith(ordered) else sorted(lines) for place, lines in told.items()
    }


def test_nothing_is_told_again_after_an_answer() -> None:
    """The other tests compare with a run like this."""
    event_victim.register_graphs()
    event_victim.live("telling_asking", "0")
    told = read_events(Run.objects.get().pk)
    kinds = {place: len(lines) for place, lines in told.items()}
    assert kinds == {
        " values": 7, " values asking": 2, " checkpoints": 7, " tasks": 16, " updates": 7,
        " updates asking": 2, " custom": 14, "messages": 6,
    }  # fmt: skip
    events = RunEvent.objects.order_by("seq").values_list("kind", "data")
    assert not [data for kind, data in events if kind == "updates" and "__metadata__" in data]


def test_a_graph_that_stores_nothing_tells_with_the_task_that_calls_it() -> None:
    event_victim.register_graphs()
    event_victim.live("telling_unsaved", "0")
    events = list(RunEvent.objects.filter(ns__startswith="call:").values_list("kind", flat=True))
    assert events == ["values", "tasks", "custom", "updates", "tasks", "values"]
    told = read_events(Run.objects.get().pk)
    assert len(told[" custom"]) == len(told[" updates"]) == 2


@pytest.mark.promise("P6")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("graph", event_victim.GRAPHS)
def test_a_kill_at_any_commit_loses_and_doubles_no_event(graph: str, after: bool) -> None:
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    die = partial(event_victim.die_everywhere, after=after)
    process = processes.start(die, graph, theirs)
    assert ours.poll(processes.PATIENCE)
    runs = ours.recv()
    process.join(processes.PATIENCE)
    assert runs > 5

    event_victim.register_graphs()
    for key in map(str, range(1, runs + 1)):
        services.start(graph, {"said": []}, key=key)
    settle()
    event_victim.live(graph, "undisturbed")
    assert set(Run.objects.values_list("state", "error")) == {("succeeded", "")}
    wanted = read_events(Run.objects.get(key="undisturbed").pk)
    for run in Run.objects.order_by("created_at"):
        numbers = list(
            RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True)
        )
        assert numbers == list(range(1, len(numbers) + 1))
        told = read_events(run.pk)
        for place in told.keys() | wanted.keys():
            assert told.get(place) == wanted.get(place), (run.key, place)
