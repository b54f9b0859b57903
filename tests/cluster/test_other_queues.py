"""Common behaviour of all task queues, with their own workers, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.apps import apps
from django.db import connection, transaction

from hitl_django import services
from hitl_django.models import Checkpoint, Interrupt, Run
from hitl_django.task_queue import dispatcher
from hitl_django.worker import messages
from hitl_django.worker.supervisor import FAULT_SECONDS
from tests import celery_app, databases
from tests.chaos import invariants
from tests.chaos.proxy import Proxy
from tests.messages import enqueue_run

from .conftest import IMPATIENT, ROOT, Cluster, all_succeeded, begun, start_laps, states
from .redis_server import RedisServer
from .test_outage import nobody_holds_anything

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.promise("P8"),
    pytest.mark.django_db(transaction=True),
]

Start = Callable[..., Cluster]


class Queue(ABC):
    """A queue with its workers, as a project runs it."""

    path: str
    environment: dict[str, str]
    #: The process of ``hitl worker``.
    arguments: tuple[str, ...] = ()
    #: Number of messages that the workers execute concurrently.
    width = 1

    @abstractmethod
    def length(self) -> int:
        """Return the number of waiting messages."""

    @abstractmethod
    def lose(self) -> None:
        """Lose all messages."""

    @abstractmethod
    def work(self) -> Cluster:
        """Start the sweep, and the workers if the queue has its own."""

    @abstractmethod
    def worker(self) -> int:
        """Return the process id of a worker."""

    def overtaken(self, workers: Cluster) -> int:
        return workers.overtaken()

    @abstractmethod
    def stop(self) -> None:
        """Stop the workers, and wait until they have ended."""


class DjangoTasks(Queue):
    path = "hitl_django.contrib.django_tasks.Dispatcher"

    def __init__(self, cluster: Start, environment: dict[str, str]) -> None:
        self.start, self.environment = cluster, environment

    def length(self) -> int:
        rows = apps.get_model("django_tasks_database", "DBTaskResult")._default_manager
        return rows.filter(status="READY").count()

    def lose(self) -> None:
        apps.get_model("django_tasks_database", "DBTaskResult")._default_manager.all().delete()

    def work(self) -> Cluster:
        self.supervisor = self.start("hitl", "worker", *self.arguments, **self.environment)
        return self.supervisor

    def worker(self) -> int:
        return self.supervisor.main()

    def stop(self) -> None:
        assert self.supervisor.stop() == 0


class Procrastinate(DjangoTasks):
    path = "hitl_django.contrib.procrastinate.Dispatcher"
    width = 4

    def length(self) -> int:
        return self._rows().filter(status="todo").count()

    def lose(self) -> None:
        self._rows().all()._raw_delete("default")

    def _rows(self) -> Any:
        return apps.get_model("procrastinate", "ProcrastinateJob")._default_manager


class CeleryOverRedis(Queue):
    path = "hitl_django.contrib.celery.Dispatcher"
    width = 2

    def __init__(
        self, cluster: Start, environment: dict[str, str], server: RedisServer, folder: Path
    ) -> None:
        self.start, self.environment, self.server = cluster, environment, server
        self.log = folder / "celery.log"
        self.process: subprocess.Popen[bytes] | None = None

    def length(self) -> int:
        return self.server.length_of("celery")

    def lose(self) -> None:
        self.server.kill()
        self.server.start()

    def command(self) -> list[str]:
        command = ["-m", "celery", "-A", "tests.celery_app", "worker", "--concurrency", "2"]
        return [*command, "--loglevel", "INFO", "--without-gossip"]

    def work(self) -> Cluster:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, *self.command()],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.start("hitl", "worker", *self.arguments, **self.environment)

    def worker(self) -> int:
        assert self.process is not None
        return psutil.Process(self.process.pid).children()[0].pid

    def overtaken(self, workers: Cluster) -> int:
        return self.log.read_text().count("was taken over")

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log.read_text()

    def clear_up(self) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()


class DjangoTasksOverRedis(CeleryOverRedis):
    path = "hitl_django.contrib.django_tasks.Dispatcher"
    width = 1

    def length(self) -> int:
        return self.server.length_of("rq:queue:default")

    def command(self) -> list[str]:
        return ["manage.py", "rqworker", "default", "--job-class", "django_tasks_rq.Job"]


@pytest.fixture
def environment(database_url: str, settings: Any) -> Callable[[type[Queue]], dict[str, str]]:
    """Return a function that selects a queue and returns the environment for other processes."""

    def choose(kind: type[Queue]) -> dict[str, str]:
        settings.HITL = {**IMPATIENT, "DISPATCH": kind.path}
        return {
            "TEST_HITL": json.dumps(settings.HITL),
            "DATABASE_URL": database_url,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
        }

    return choose


@pytest.fixture
def tasks_queue(cluster: Start, environment: Any) -> DjangoTasks:
    return DjangoTasks(cluster, environment(DjangoTasks))


@pytest.fixture
def celery_queue(cluster: Start, environment: Any, tmp_path: Path) -> Iterator[CeleryOverRedis]:
    server = RedisServer(tmp_path).start()
    broker = f"redis+socket://{server.socket}"
    app = celery_app.make_app(broker)
    chosen = environment(CeleryOverRedis) | {"TEST_CELERY_BROKER": broker}
    found = CeleryOverRedis(cluster, chosen, server, tmp_path)
    yield found
    found.clear_up()
    app.close()
    server.kill()


@pytest.fixture
def rq_queue(
    cluster: Start, environment: Any, tmp_path: Path, settings: Any
) -> Iterator[DjangoTasksOverRedis]:
    server = RedisServer(tmp_path).start()
    settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": str(server.socket), "DB": 0}}
    settings.TASKS = {"default": {"BACKEND": "django_tasks_rq.RQBackend"}}
    chosen = environment(DjangoTasksOverRedis) | {"TEST_RQ_SOCKET": str(server.socket)}
    found = DjangoTasksOverRedis(cluster, chosen, server, tmp_path)
    yield found
    found.clear_up()
    server.kill()


@pytest.fixture
def procrastinate_queue(cluster: Start, environment: Any) -> Procrastinate:
    found = Procrastinate(cluster, environment(Procrastinate))
    # Django empties only managed tables, and these tables are not managed.
    found.lose()
    return found


@pytest.fixture(
    params=[
        "tasks_queue",
        "celery_queue",
        # These messages are also in Redis, and Django's Tasks execute them.
        pytest.param("rq_queue", marks=pytest.mark.any_database),
        pytest.param("procrastinate_queue", marks=pytest.mark.database("postgresql")),
    ]
)
def queue(request: pytest.FixtureRequest) -> Queue:
    found: Queue = request.getfixturevalue(request.param)
    return found


@pytest.fixture(
    params=[
        "tasks_queue",
        pytest.param("procrastinate_queue", marks=pytest.mark.database("postgresql")),
    ]
)
def supervised(request: pytest.FixtureRequest) -> Queue:
    found: Queue = request.getfixturevalue(request.param)
    return found


@pytest.mark.promise("P3")
def test_queue_receives_message_only_after_commit(queue: Queue) -> None:
    with transaction.atomic():
        enqueue_run("an id")
        transaction.set_rollback(True)
    assert queue.length() == 0
    with transaction.atomic():
        enqueue_run("an id")
    assert queue.length() == 1


def test_run_with_two_interrupts_completes_through_each_queue(queue: Queue) -> None:
    workers = queue.work()
    run = services.start("interview", {"log": []})
    for answer in ("one", "two"):
        workers.wait_for(lambda: states([run.id]) == {"interrupted": 1})
        services.decide(Interrupt.objects.get(status="pending").pk, "respond", answer)
    workers.wait_for(all_succeeded([run.id]))
    assert queue.length() == 0


def test_runs_of_killed_queue_worker_succeed_after_restart(queue: Queue, book: Path) -> None:
    workers = queue.work()
    runs = start_laps(book, 4)
    workers.wait_for(lambda: book.read_text() != "")
    os.kill(queue.worker(), signal.SIGKILL)
    workers.wait_for(all_succeeded(runs))
    # Only the laps during a kill may start again: at most one for each thread of the process.
    assert begun(book).total() <= 4 * 5 + queue.width + queue.overtaken(workers)


def test_runs_whose_queue_messages_were_lost_succeed(queue: Queue, book: Path) -> None:
    runs = start_laps(book, 3, laps=1, seconds=0)
    assert queue.length() == 3
    queue.lose()
    assert queue.length() == 0
    queue.work().wait_for(all_succeeded(runs))


def test_node_longer_than_time_slice_is_not_interrupted_by_queue_worker(
    queue: Queue, book: Path, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "TIME_SLICE_SECONDS": 1}
    queue.environment["TEST_HITL"] = json.dumps(settings.HITL)
    # All workers are busy, and one run waits longer than the supervisor's timeout.
    workers = queue.work()
    runs = start_laps(book, queue.width, laps=1, seconds=1.5 * FAULT_SECONDS)
    workers.wait_for(lambda: len(begun(book)) == queue.width)
    (waiting,) = start_laps(book, 1, laps=1, seconds=0)
    workers.wait_for(all_succeeded([*runs, waiting]))
    assert "restarting" not in workers.log.read_text()
    assert set(Run.objects.filter(pk__in=runs).values_list("thread__epoch", flat=True)) == {1}


def test_stopped_queue_workers_stop_their_runs_at_the_end_of_a_step(
    queue: Queue, book: Path
) -> None:
    workers = queue.work()
    runs = start_laps(book, 2, laps=8, seconds=0.2)
    workers.wait_for(lambda: len(begun(book)) >= 2)
    queue.stop()
    assert set(begun(book).values()) == {1}
    assert "running" not in states(runs)
    again = queue.work()
    again.wait_for(all_succeeded(runs))
    assert set(begun(book).values()) == {1}


@pytest.mark.promise("P7")
def test_stalled_queue_worker_is_restarted_by_its_supervisor(supervised: Queue, book: Path) -> None:
    workers = supervised.work()
    os.kill(supervised.worker(), signal.SIGSTOP)
    workers.wait_for(all_succeeded(start_laps(book, 3, laps=1, seconds=0)))
    assert "a run is queued, but no worker picks it up" in workers.log.read_text()


@pytest.mark.promise("P7")
def test_queue_worker_ends_after_its_supervisor_is_killed(supervised: Queue, book: Path) -> None:
    workers = supervised.work()
    runs = start_laps(book, supervised.width + 1, laps=100)
    workers.wait_for(lambda: len(begun(book)) >= supervised.width)
    worker = psutil.Process(supervised.worker())
    workers.process.kill()
    assert psutil.wait_procs([worker], timeout=60)[1] == []
    assert not all_succeeded(runs)()


@pytest.mark.database("postgresql")
@pytest.mark.promise("P7")
@pytest.mark.promise("P10")
def test_short_database_outage_repeats_at_most_one_step_per_queue_worker(
    queue: Queue, book: Path, tmp_path: Path
) -> None:
    health = tmp_path / "health"
    count, laps = 8, 6
    with Proxy(lambda: "pass") as proxy:
        queue.environment["DATABASE_URL"] = databases.to_url(connection, **proxy.settings())
        queue.arguments = ("--health-file", str(health))
        workers = queue.work()
        workers.wait_for(health.exists)
        workers.wait_for(lambda: health.read_text() == "ready\n")
        asked = services.start("interview", {"log": []})
        workers.wait_for(lambda: states([asked.id]) == {"interrupted": 1})
        runs = start_laps(book, count, laps=laps)
        workers.wait_for(lambda: len(begun(book)) >= 4)
        with proxy.down():
            interrupt = Interrupt.objects.get(run=asked.id, status="pending")
            services.decide(interrupt.pk, "respond", "one")
            workers.wait_for(nobody_holds_anything)
            workers.wait_for(lambda: health.read_text() == "waiting\n")
        workers.wait_for(all_succeeded(runs))
        workers.wait_for(lambda: states([asked.id]) == {"interrupted": 1})
        workers.wait_for(lambda: health.read_text() == "ready\n")
        overtaken = queue.overtaken(workers)
        assert workers.stop() == 0
    assert not health.exists()
    assert len(begun(book)) == count * laps
    assert begun(book).total() <= count * laps + queue.width + overtaken
    assert (invariants.faults(), invariants.unfinished()) == ([], [])
    steps = Counter(Checkpoint.objects.filter(thread__runs__in=runs).values_list("thread", "step"))
    assert set(steps.values()) == {1}


def test_runs_started_during_celery_broker_outage_succeed_afterwards(
    celery_queue: CeleryOverRedis, book: Path
) -> None:
    celery_queue.server.kill()
    assert [each.id for each in dispatcher.get_dispatcher().probe()] == ["hitl_django.E037"]
    runs = start_laps(book, 2, laps=1, seconds=0)
    assert states(runs) == {"queued": 2}
    workers = celery_queue.work()
    celery_queue.server.start()
    workers.wait_for(all_succeeded(runs))


@pytest.mark.any_database
def test_runs_started_during_rq_redis_outage_succeed_afterwards(
    rq_queue: DjangoTasksOverRedis, book: Path
) -> None:
    rq_queue.server.kill()
    runs = start_laps(book, 2, laps=1, seconds=0)
    assert states(runs) == {"queued": 2}
    rq_queue.server.start()
    assert rq_queue.length() == 0
    rq_queue.work().wait_for(all_succeeded(runs))


def test_perform_of_message_naming_unknown_function_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"No handler for messages to 'os\.system'\."):
        messages.perform("os.system", "true")
    assert not Run.objects.exists()
