"""Worker processes that die or freeze under ``hitl worker``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hitl_django import services
from hitl_django.models import WorkerHeartbeat
from tests.chaos import invariants

from .conftest import PATIENCE, Cluster, all_succeeded, begun, start_laps, states

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Cluster]


@pytest.mark.promise("P7")
def test_runs_succeed_after_kill_of_any_qcluster_process(
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
        # Killing one process may repeat the active step of each worker's run, but no other step.
        most = 8 * 5 + 2 + supervised.overtaken()
        assert sum(begun(book).values()) <= most, (number, kind)
    assert all_succeeded(runs)()
    assert (invariants.faults(), invariants.unfinished()) == ([], [])
    assert services.worker_health().is_alive
    figures(f"{len(kinds)} processes of qcluster killed under load: {len(runs)} runs succeeded")


@pytest.mark.any_database
@pytest.mark.promise("P7")
def test_runs_continue_without_restart_after_kill_of_processes_that_have_a_lock(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker", q={"workers": 1}).ready(workers=1)
    # The only worker waits for a task and has the lock of the queue. The monitor waits for results.
    for kind in ["worker", "monitor", "pusher"]:
        os.kill(supervised.last(kind), signal.SIGKILL)
        supervised.wait_for(all_succeeded(start_laps(book, 3, laps=1)))
    assert "restarting" not in supervised.log.read_text()


@pytest.mark.any_database
@pytest.mark.promise("P7")
def test_cluster_whose_pusher_freezes_is_restarted_by_supervisor(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker").ready()
    os.kill(supervised.last("pusher"), signal.SIGSTOP)
    runs = start_laps(book, 3, laps=1)
    supervised.wait_for(all_succeeded(runs))
    assert "a run is queued, but no worker picks it up" in supervised.log.read_text()


@pytest.mark.any_database
@pytest.mark.promise("P7")
def test_cluster_stopped_by_sigterm_to_all_processes_is_restarted_by_supervisor(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker").ready()
    # The main process hangs because no other process is left.
    os.killpg(supervised.main(), signal.SIGTERM)
    supervised.wait_for(all_succeeded(start_laps(book, 3, laps=1)))


def family(main: int) -> list[psutil.Process]:
    return [psutil.Process(main), *psutil.Process(main).children(recursive=True)]


def test_all_cluster_processes_end_after_their_supervisor_is_killed(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker").ready()
    # More than workers, so some runs are active and some are queued.
    runs = start_laps(book, 3, laps=100)
    supervised.wait_for(lambda: len(begun(book)) >= 2)
    processes = family(supervised.main())
    assert len(processes) == 5  # main process, two workers, monitor, pusher

    os.kill(supervised.process.pid, signal.SIGKILL)

    assert psutil.wait_procs(processes, timeout=PATIENCE)[1] == []
    assert not all_succeeded(runs)()


def test_orphaned_cluster_processes_end_at_next_task_without_kernel_parent_death_signal(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker", TEST_PARENT_DEATH="unheard").ready()
    processes = family(supervised.main())
    os.kill(supervised.process.pid, signal.SIGKILL)
    supervised.process.wait(PATIENCE)

    runs = start_laps(book, 1)

    assert psutil.wait_procs(processes, timeout=PATIENCE)[1] == []
    assert states(runs) == {"queued": 1}
    assert begun(book) == {}, "an orphaned worker has claimed a run"


def test_all_cluster_processes_end_and_restart_after_main_process_is_killed(cluster: Start) -> None:
    supervised = cluster("hitl", "worker").ready()
    processes = family(supervised.main())
    os.kill(supervised.main(), signal.SIGKILL)
    assert psutil.wait_procs(processes, timeout=PATIENCE)[1] == []
    supervised.ready(workers=4)  # and new processes have replaced the killed ones


@pytest.mark.any_database
def test_cluster_with_unprocessed_task_results_is_restarted_by_supervisor(
    cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker").ready()
    os.kill(supervised.last("monitor"), signal.SIGSTOP)
    runs = start_laps(book, 2, laps=1)
    supervised.wait_for(all_succeeded(runs))
    supervised.wait_for(lambda: "results are not processed" in supervised.log.read_text())


def test_cluster_worker_writes_heartbeat_after_executing_runs(cluster: Start, book: Path) -> None:
    supervised = cluster("hitl", "worker").ready()
    assert not WorkerHeartbeat.objects.exists()
    assert services.worker_health().last_seen is None
    supervised.wait_for(all_succeeded(start_laps(book, 4, laps=1)))
    supervised.wait_for(WorkerHeartbeat.objects.exists)
    family = psutil.Process(supervised.main()).children(recursive=True)
    assert {row.pid for row in WorkerHeartbeat.objects.all()} <= {each.pid for each in family}
    assert supervised.stop() == 0
