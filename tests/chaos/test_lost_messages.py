"""Lost, repeated and reordered messages, and messages of rolled-back starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django_q.conf import Conf
from django_q.models import OrmQ

from hitl_django import services
from hitl_django.contrib.django_q2 import dispatcher
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep
from tests import processes
from tests.messages import count_due_runs

from . import invariants, recovery, victim
from .graphs import EMPTY, Effects

SHAPE = "chaos line"  # two claims: up to the interrupt, and up to the end


@pytest.mark.django_db
@pytest.mark.promise("P8")
def test_sweep_after_each_step_completes_all_runs_although_every_message_is_lost(
    effects: Effects, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    count = amount(20, 200)
    for _ in range(count):
        services.start(SHAPE, EMPTY)
    for state in ("interrupted", "succeeded"):
        assert (OrmQ.objects.count(), count_due_runs()) == (0, count)
        # Let as much time pass as the sweep allows for a worker to find the run, and let no worker
        # find it.
        later = Now() + timedelta(minutes=1)
        Run.objects.update(last_message_at=Now() - timedelta(minutes=1), queued_at=later)
        sweep()
        assert (OrmQ.objects.count(), count_due_runs()) == (count, 0)
        assert recovery.deliver() == count
        assert set(Run.objects.values_list("state", flat=True)) == {state}
        recovery.answer()
    assert invariants.faults(effects=effects) == []
    assert len(effects.done()) == 3 * count
    figures(f"{2 * count} of {2 * count} messages lost: one sweep finished each of {count} runs")


@pytest.mark.django_db
@pytest.mark.promise("P8")
@pytest.mark.promise("P10")
def test_ten_shuffled_messages_per_run_execute_each_run_once(
    effects: Effects, chance: Random
) -> None:
    runs = [str(services.start(SHAPE, EMPTY).id) for _ in range(10)]
    for _ in range(2):
        messages = runs * 10
        chance.shuffle(messages)
        for run in messages:
            runner.advance(run)
        recovery.answer()
    assert set(Thread.objects.values_list("epoch", flat=True)) == {2}
    assert len(effects.begun()) == len(runs) * 4  # the interrupting node runs twice
    assert invariants.faults(effects=effects) == []


@pytest.mark.race
@pytest.mark.django_db(transaction=True)
@pytest.mark.promise("P9")
def test_rolled_back_starts_are_never_executed_by_a_running_worker(
    effects: Effects,
    amount: Callable[[int, int], int],
    settings: Any,
    figures: Callable[[str], None],
) -> None:
    settings.HITL = recovery.IMPATIENT
    ours, theirs = processes.SERVER.Pipe()
    looking = processes.start(victim.look, effects.path, theirs)
    assert ours.poll(processes.PATIENCE)
    ours.recv()
    count = amount(15, 100)
    for _ in range(count):
        with transaction.atomic():
            services.start(SHAPE, EMPTY)
            transaction.set_rollback(True)
    kept = services.start(SHAPE, EMPTY)
    ours.send(str(kept.id))
    looking.join(processes.PATIENCE)
    assert looking.exitcode == 0
    assert (Thread.objects.count(), Run.objects.count()) == (1, 1)
    assert len(effects.begun()) == 2
    assert invariants.astray() == []
    figures(f"{count} starts rolled back beside a worker: 0 threads, 0 functions called")


def vanish(interrupt: str) -> None:
    Conf.ORM = "elsewhere"
    dispatcher.async_task = lambda *args, **kwargs: os._exit(victim.CRASHED)
    services.decide(interrupt, "respond", "b")


@pytest.mark.crash
@pytest.mark.django_db(transaction=True)
@pytest.mark.promise("P8")
def test_decision_resumes_the_run_although_its_process_was_killed_before_sending_the_message(
    settings: Any,
) -> None:
    settings.HITL = recovery.IMPATIENT
    run = services.start(SHAPE, EMPTY).id
    recovery.settle(answering=False)
    process = processes.start(vanish, str(Interrupt.objects.get().pk))
    process.join(processes.PATIENCE)
    assert process.exitcode == victim.CRASHED
    assert (recovery.state_of(run), OrmQ.objects.count()) == ("queued", 0)
    assert Decision.objects.count() == 1
    recovery.settle(answering=False)
    assert recovery.state_of(run) == "succeeded"
    assert invariants.faults() == []


def test_file_of_function_calls_lists_started_and_finished_calls_in_order(tmp_path: Path) -> None:
    effects = Effects(tmp_path / "effects")
    assert (effects.begun(), effects.done()) == ([], [])
    for word, task in (("begun", "a"), ("done", "a"), ("begun", "a")):
        effects.mark(word, task)
    assert (effects.begun(), effects.done()) == (["a", "a"], ["a"])
