"""Runs in a separate cluster next to the project's cluster, without waiting for each other."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django_q.models import OrmQ
from django_q.tasks import async_task

from hitl_django import services
from hitl_django.contrib.django_q2 import schedules
from hitl_django.models import Interrupt
from tests.messages import enqueue_run

from .conftest import (
    IMPATIENT,
    PATIENCE,
    SAYS,
    Cluster,
    all_succeeded,
    begun,
    start_laps,
    states,
)  # fmt: skip

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Cluster]


@pytest.fixture(params=["unmentioned", "described"])
def worker(request: pytest.FixtureRequest, cluster: Start, settings: Any) -> Callable[[], Cluster]:
    """Return a function that starts ``hitl worker`` with one worker that only executes runs.

    The project's Q_CLUSTER doesn't mention its cluster, or says that it has one worker.
    """
    settings.HITL = {**IMPATIENT, "CLUSTER": "runs"}
    is_described = request.param == "described"
    q = {"workers": 2, "ALT_CLUSTERS": {"runs": {"workers": 1}}} if is_described else {"workers": 1}

    def start() -> Cluster:
        told = json.dumps(settings.HITL)
        return cluster("hitl", "worker", q=q, TEST_HITL=told).ready(workers=1)

    return start


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "gate"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


@pytest.fixture
def product(cluster: Start) -> Callable[[], Cluster]:
    return lambda: cluster("qcluster", q={"workers": 1}).ready(workers=1)


def test_runs_on_named_cluster_continue_while_project_cluster_is_blocked(
    worker: Callable[[], Cluster], product: Callable[[], Cluster], gate: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async_task("tests.tasks.hold", str(gate), str(mark), save=False, ack_failure=True)
    product().wait_for(mark.exists)
    workers = worker()
    run = services.start("interview", {"log": []})
    for answer in ("one", "two"):
        workers.wait_for(lambda: states([run.id]) == {"interrupted": 1})
        services.decide(Interrupt.objects.get(status="pending").pk, "respond", answer)
    workers.wait_for(all_succeeded([run.id]))
    assert len(re.findall(SAYS["worker"], workers.log.read_text())) == 1


def test_project_tasks_continue_while_workers_of_named_cluster_are_blocked(
    worker: Callable[[], Cluster], product: Callable[[], Cluster], book: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    workers = worker()
    runs = start_laps(book, 1, laps=1, seconds=PATIENCE)
    workers.wait_for(lambda: bool(begun(book)))
    async_task("tests.tasks.note", str(mark), save=False, ack_failure=True)
    product().wait_for(mark.exists)
    assert states(runs) == {"running": 1}


def test_worker_of_named_cluster_executes_runs_whose_messages_were_lost(
    worker: Callable[[], Cluster], book: Path
) -> None:
    runs = start_laps(book, 3, laps=1, seconds=0)
    for run in runs:
        enqueue_run(run)
    assert set(OrmQ.objects.values_list("key", flat=True)) == {"runs"}
    OrmQ.objects.all().delete()
    worker().wait_for(all_succeeded(runs))


def test_sweep_schedules_are_installed_for_the_configured_cluster(settings: Any) -> None:
    def clusters() -> set[str | None]:
        installed = schedules.Schedule.objects.filter(name__startswith=schedules.NAME)
        return set(installed.values_list("cluster", flat=True))

    schedules.install_schedules(using="default")
    assert clusters() == {None}
    settings.HITL = {"CLUSTER": "runs"}
    schedules.install_schedules(using="default")
    assert clusters() == {"runs"}
