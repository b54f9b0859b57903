"""Workers killed or frozen between two super-steps: the run goes on by itself, nothing twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from hitl_django import audit, registry, services, testing
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.saver import DjangoSaver
from hitl_django.sweep import sweep

from . import victim

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

PATIENCE = 60
#: The commits of the graph "steps": the input taken in, and five nodes.
COMMITS = 6


def stop_at(run: object, when: str, nth: int) -> tuple[Any, Any]:
    """Have a worker process advance the run; return it and its pipe once it has stopped."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([victim.__name__])
    ours, theirs = server.Pipe()
    database = str(connections["default"].settings_dict["NAME"])
    process = server.Process(target=victim.work, args=(database, str(run), when, nth, theirs))
    process.start()
    assert ours.poll(PATIENCE)
    assert ours.recv() == process.pid, "the run ended before the point was reached"
    return process, ours


def kill_at(run: object, when: str, nth: int) -> None:
    process, _pipe = stop_at(run, when, nth)
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL


def recover(run: object, advance: Callable[[], int]) -> Run:
    """Let sweeps and workers go on until the run rests; nobody tells them about it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = Run.objects.get(pk=run)
        if found.state not in (Run.State.QUEUED, Run.State.RUNNING):
            return found
        assert time.monotonic() < deadline, f"still {found.state}"
        sweep()
        if not advance():
            threading.Event().wait(0.05)


def log_of(run: Run) -> list[str]:
    graph = registry.get(run.graph).graph.with_saver(DjangoSaver())
    state = graph.get_state({"configurable": {"thread_id": run.thread.thread_id}})
    return list(state.values["log"])


@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_killed_workers_run_recovers_by_itself(when: str) -> None:
    with override_settings(HITL=victim.IMPATIENT), testing.inline() as advance:
        infos = {nth: services.start("steps", {"log": ["in"]}) for nth in range(1, COMMITS + 1)}
        testing._hinted.clear()  # every hint is lost, too
        for nth, info in infos.items():
            kill_at(info.id, when, nth)
        for info in infos.values():
            run = recover(info.id, advance)
            assert run.state == Run.State.SUCCEEDED
            # Conservation: no step lost, none applied twice.
            assert log_of(run) == ["in", "a", "b", "c", "d", "e"]
            steps = Checkpoint.objects.filter(thread=run.thread).values_list("step", flat=True)
            assert sorted(steps) == list(range(-1, COMMITS))
            parents = Checkpoint.objects.filter(thread=run.thread).values_list("parent_id")
            assert len(set(parents)) == len(parents), "two checkpoints follow the same one"
        assert not Thread.objects.exclude(lease_until=None).exists()
        assert not Thread.objects.exclude(attempts=0).exists()


@pytest.mark.promise("P6")
@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_worker_killed_at_a_pause_asks_once(when: str) -> None:
    with override_settings(HITL=victim.IMPATIENT), testing.inline() as advance:
        info = services.start("panel", {"log": []})
        testing._hinted.clear()
        kill_at(info.id, when, victim.LAST)
        run = recover(info.id, advance)
        assert run.state == Run.State.INTERRUPTED
        asked = list(Interrupt.objects.order_by("task_path"))
        assert [row.title for row in asked] == ["Question to left", "Question to right"]
        for row in asked:
            services.decide(row.pk, "respond", row.node)
        assert recover(info.id, advance).state == Run.State.SUCCEEDED
        assert audit.first_fault(run.thread) is None


@pytest.mark.promise("P10")
@pytest.mark.parametrize("nth", [1, 3, COMMITS])
def test_a_worker_that_thaws_after_its_replacement_writes_nothing(nth: int) -> None:
    with override_settings(HITL=victim.IMPATIENT), testing.inline() as advance:
        info = services.start("steps", {"log": ["in"]})
        testing._hinted.clear()
        process, pipe = stop_at(info.id, "before", nth)
        os.kill(process.pid, signal.SIGSTOP)  # its heartbeat is frozen with it
        run = recover(info.id, advance)
        assert run.state == Run.State.SUCCEEDED
        epochs = sorted(Checkpoint.objects.values_list("step", "epoch"))

        os.kill(process.pid, signal.SIGCONT)
        pipe.send("go on")
        assert pipe.poll(PATIENCE)
        assert pipe.recv() == 0  # it gave up and returned, as from any other run
        process.join(PATIENCE)
        assert process.exitcode == 0
        assert sorted(Checkpoint.objects.values_list("step", "epoch")) == epochs
        assert Run.objects.get().state == Run.State.SUCCEEDED
        assert log_of(run) == ["in", "a", "b", "c", "d", "e"]
        thread = Thread.objects.get()
        assert (thread.lease_until, thread.epoch) == (None, 2)
