"""SIGTERM: a run stops between two super-steps, and no task is executed twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hitl_django.models import Run, Thread

from .conftest import PATIENCE, PATIENT, Cluster, all_succeeded, begun, start_laps, states

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Cluster]


def under_way(book: Path, runs: int = 2) -> Callable[[], bool]:
    return lambda: len({line.split()[0] for line in book.read_text().splitlines()}) >= runs


def rest(cluster: Cluster) -> None:
    cluster.wait_for(lambda: not Run.objects.filter(state="running").exists())


@pytest.mark.promise("P13")
def test_supervised_cluster_stopped_by_signal_stops_its_runs_at_the_end_of_a_step(
    cluster: Start, book: Path
) -> None:
    # With time slices the runs alternate, so no run ends before all runs were resumed.
    told = {"TEST_HITL": json.dumps({**PATIENT, "TIME_SLICE_SECONDS": 1})}
    first = cluster("hitl", "worker", **told).ready()
    runs = start_laps(book, 4, laps=300, seconds=0.2)
    first.wait_for(under_way(book))
    family = psutil.Process(first.process.pid).children(recursive=True)
    assert first.stop() == 0
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []
    assert states(runs) == {"queued": 4}
    assert not Thread.objects.exclude(lease_until=None).exists()
    assert max(begun(book).values()) == 1

    second = cluster("hitl", "worker", **told)
    for run in runs:  # some laps show that each run is resumed
        second.wait_for(lambda run=run: Run.objects.get(pk=run).step > 1)
    second.stop()
    assert max(begun(book).values()) == 1, "a lap was started twice"


@pytest.mark.promise("P13")
@pytest.mark.parametrize("everybody", [False, True])
def test_qcluster_worker_stopped_by_sigterm_stops_its_run_at_the_end_of_a_step(
    cluster: Start, book: Path, everybody: bool
) -> None:
    plain = cluster("qcluster", TEST_HITL=json.dumps(PATIENT)).ready()
    runs = start_laps(book, 2, laps=600 if everybody else 30)
    plain.wait_for(under_way(book))
    workers = [psutil.Process(int(one.lease_owner.split(":")[1])) for one in Thread.objects.all()]
    if everybody:
        os.killpg(plain.process.pid, signal.SIGTERM)
    else:
        workers[0].send_signal(signal.SIGTERM)
    assert psutil.wait_procs(workers[: 2 if everybody else 1], timeout=PATIENCE)[1] == []
    if everybody:
        # django-q2 stops all workers. The test checks the state of the runs afterwards.
        assert states(runs) == {"queued": 2}
        assert not Thread.objects.exclude(lease_until=None).exists()
    else:
        plain.wait_for(all_succeeded(runs))
    assert max(begun(book).values()) == 1


@pytest.mark.promise("P13")
def test_stopped_qcluster_requeues_its_runs_at_end_of_time_slice(
    cluster: Start, book: Path
) -> None:
    told = json.dumps({**PATIENT, "TIME_SLICE_SECONDS": 1})
    plain = cluster("qcluster", TEST_HITL=told).ready()
    runs = start_laps(book, 2, laps=600)
    plain.wait_for(under_way(book))
    assert plain.stop() == 0
    assert states(runs) == {"queued": 2}
    assert not Thread.objects.exclude(lease_until=None).exists()
    assert max(begun(book).values()) == 1


@pytest.mark.promise("P13")
def test_idle_qcluster_worker_stopped_by_sigterm_claims_no_run(cluster: Start, book: Path) -> None:
    plain = cluster("qcluster", q={"workers": 1}).ready(workers=1)
    for _ in range(3):
        before = psutil.Process(plain.last("worker"))
        before.send_signal(signal.SIGTERM)
        psutil.wait_procs([before], timeout=PATIENCE)
        plain.wait_for(lambda before=before: plain.last("worker") != before.pid)
    runs = start_laps(book, 2, laps=1)
    plain.wait_for(all_succeeded(runs))
    assert plain.stop() == 0


def test_qcluster_worker_executing_project_task_stops_immediately_on_sigterm(
    cluster: Start, book: Path
) -> None:
    from django_q.tasks import async_task

    plain = cluster("qcluster", q={"workers": 1}).ready(workers=1)
    async_task("time.sleep", 60)
    plain.wait_for(lambda: "processing" in plain.log.read_text())
    worker = psutil.Process(plain.last("worker"))
    worker.send_signal(signal.SIGTERM)
    assert psutil.wait_procs([worker], timeout=PATIENCE)[1] == []
