"""Wake-ups of django-q2's workers by the broker that watches the runs."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from hitl_django import services
from hitl_django.contrib.django_q2 import wake_up, worker_process
from hitl_django.contrib.django_q2.run_broker import RunBroker
from hitl_django.task_queue import dispatcher
from hitl_django.worker import advance_due
from tests.messages import count_due_runs, enqueue_run

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> RunBroker:
    monkeypatch.setattr(Conf, "POLL", 0.0)
    wake_up.note_begun()
    return RunBroker("hitl")


def take(broker: RunBroker) -> list[str]:
    """Return the functions of the tasks that the broker passes to workers."""
    packed = broker.dequeue() or []
    return [str(SignedPackage.loads(pack)["func"]) for _, pack in packed]


@pytest.mark.promise("P22")
def test_broker_wake_up_contains_no_run_data_and_start_of_a_run_stores_no_message(
    broker: RunBroker,
) -> None:
    services.start("approval", {"text": "secret"})
    assert not OrmQ.objects.exists()
    [(key, packed)] = broker.dequeue() or []
    task = SignedPackage.loads(packed)
    assert (key, task["func"], task["args"]) == (None, dispatcher.ADVANCE_DUE, ("",))
    assert (task["kwargs"], task["ack_failure"], task["save"]) == ({}, True, False)


@pytest.mark.promise("P8")
def test_broker_sends_next_wake_up_only_after_the_previous_wake_up_was_begun_or_expired(
    broker: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert take(broker) == []
    for _ in range(3):
        services.start("steps", {"log": []})
    assert take(broker) == [dispatcher.ADVANCE_DUE]
    assert take(broker) == []
    monkeypatch.setattr(worker_process._Process, "pid", os.getpid())
    worker_process._begins({"func": dispatcher.ADVANCE_DUE})
    # Another worker is needed, because runs are still due.
    assert take(broker) == [dispatcher.ADVANCE_DUE]
    monkeypatch.setattr(wake_up._Pusher, "expires", time.monotonic())
    assert take(broker) == [dispatcher.ADVANCE_DUE]
    advance_due()
    wake_up.note_begun()
    assert (take(broker), count_due_runs()) == ([], 0)


def test_broker_passes_other_tasks_and_wake_up_together(broker: RunBroker) -> None:
    run = services.start("steps", {"log": []})
    enqueue_run(run.id)
    assert take(broker) == [dispatcher.ADVANCE, dispatcher.ADVANCE_DUE]
    assert take(broker) == []


def test_broker_fetches_other_tasks_every_poll_seconds_while_runs_are_due(
    broker: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "POLL", 0.05)
    services.start("steps", {"log": []})
    assert take(broker) == [dispatcher.ADVANCE_DUE]
    enqueue_run("an id")
    ends, taken = time.monotonic() + PATIENCE, []
    while dispatcher.ADVANCE not in taken and time.monotonic() < ends:
        wake_up.note_begun()
        taken = take(broker)
    assert taken == [dispatcher.ADVANCE, dispatcher.ADVANCE_DUE]


def test_broker_of_another_cluster_sends_no_wake_up(broker: RunBroker, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "CLUSTER": "runs"}
    services.start("steps", {"log": []})
    assert take(broker) == []
    assert take(RunBroker("runs")) == [dispatcher.ADVANCE_DUE]
