"""Worker processes that die or stand still under ``hitl worker``: everything goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hitl_django import services
from hitl_django.models import WorkerHeartbeat
from tests.chaos import invariants

from .conftest import PATIENT, Cluster, all_succeeded, begun, start_laps

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Cluster]


@pytest.mark.promise("P7")
def test_whichever_process_is_killed_all_runs_come_to_their_end(
    cluster: Start, book: Path, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    supervised = cluster("hitl", "worker").ready()
    runs = []
    kinds = ["worker", "pusher", "monitor", "sentinel", "main"] * amount(1, 4)
    for number, kind in enumerate(kinds):
        book.write_text("")
        more = start_laps(book, 8)
        runs += more
        supervised.wait_for(lambda: len(begun(book)) >= 4)
        os.kill(supervised.last(kind), signal.SIGKILL)
        supervised.wait_for(all_succeeded(more))
        # Killing one process can cost each worker's run the step it was in, and no other.
        most = 8 * 5 + 2 + supervised.overtaken()
        assert sum(begun(book).values()) <= most, (number, kind)
    assert all_succeeded(runs)()
    assert (invariants.faults(), invariants.unfinished()) == ([], [])
    assert services.worker_health().is_alive
    figures(f"{len(kinds)} processes of qcluster killed under load: {len(runs)} runs all succeeded")


@pytest.mark.promise("P7")
def test_a_cluster_that_stands_still_is_started_anew(cluster: Start, book: Path) -> None:
    supervised = cluster("hitl", "worker", q={"workers": 1}).ready(workers=1)
    # The one worker waits for a task, and dies with the queue's lock in its hands.
    os.kill(supervised.last("worker"), signal.SIGKILL)
    runs = start_laps(book, 3, laps=1)
    supervised.wait_for(all_succeeded(runs))
    assert "a run waits, and no worker takes it up" in supervised.log.read_text()


@pytest.mark.promise("P7")
def test_a_cluster_of_which_all_were_told_to_stop_is_started_anew(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker").ready()
    os.killpg(supervised.main(), signal.SIGTERM)  # its main process hangs, with nobody left
    supervised.wait_for(all_succeeded(start_laps(book, 3, laps=1)))


def test_a_cluster_whose_supervisor_is_killed_works_on_beside_the_next(
    cluster: Start, book: Path
) -> None:
    told = {"TEST_HITL": json.dumps(PATIENT)}
    supervised = cluster("hitl", "worker", **told).ready()
    orphaned = supervised.main()
    try:
        os.kill(supervised.process.pid, signal.SIGKILL)
        supervised.wait_for(all_succeeded(start_laps(book, 4, laps=2)))
        book.write_text("")
        following = cluster("hitl", "worker", **told).ready()
        following.wait_for(all_succeeded(start_laps(book, 20, laps=2)))
        assert max(begun(book).values()) == 1, "both clusters did the same"
    finally:
        os.killpg(orphaned, signal.SIGKILL)


def test_a_cluster_whose_results_nobody_takes_in_is_started_anew(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker").ready()
    os.kill(supervised.last("monitor"), signal.SIGKILL)
    runs = start_laps(book, 2, laps=1)
    supervised.wait_for(all_succeeded(runs))
    supervised.wait_for(lambda: "results are not taken in" in supervised.log.read_text())


def test_work_that_really_ran_leaves_a_heartbeat(cluster: Start, book: Path) -> None:
    supervised = cluster("hitl", "worker").ready()
    assert not WorkerHeartbeat.objects.exists()
    assert services.worker_health().last_seen is None
    supervised.wait_for(all_succeeded(start_laps(book, 4, laps=1)))
    supervised.wait_for(WorkerHeartbeat.objects.exists)
    family = psutil.Process(supervised.main()).children(recursive=True)
    assert {row.pid for row in WorkerHeartbeat.objects.all()} <= {each.pid for each in family}
    assert supervised.stop() == 0
