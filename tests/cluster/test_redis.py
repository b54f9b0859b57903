"""Redis as the broker: messages after the commit, and recovery of lost messages by the sweep."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import transaction
from django_q.conf import Conf
from django_q.models import OrmQ

from hitl_django import services
from hitl_django.models import Interrupt
from tests.messages import enqueue_run

from .conftest import Cluster, all_succeeded, start_laps, states
from .redis_server import RedisServer

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

Start = Callable[..., Cluster]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path).start()
    monkeypatch.setattr(Conf, "ORM", None)
    monkeypatch.setattr(Conf, "BROKER_CLASS", None)
    monkeypatch.setattr(Conf, "REDIS", server.url)
    yield server
    server.kill()


@pytest.mark.promise("P3")
def test_redis_broker_receives_message_only_after_commit(server: RedisServer) -> None:
    with transaction.atomic():
        enqueue_run("an id")
        assert server.length("hitl") == 0
    assert server.length("hitl") == 1
    with transaction.atomic():
        enqueue_run("an id")
        transaction.set_rollback(True)
    assert server.length("hitl") == 1
    assert not OrmQ.objects.exists()


def test_messages_of_a_process_use_one_redis_connection(server: RedisServer) -> None:
    enqueue_run("an id")
    before = server.count_connections()
    for _ in range(3):
        enqueue_run("an id")
    assert server.count_connections() - before == 1  # the connection of count_connections


def test_message_after_restart_of_redis_uses_a_new_connection(server: RedisServer) -> None:
    enqueue_run("an id")
    server.kill()
    server.start()
    enqueue_run("an id")
    assert server.length("hitl") == 1


@pytest.mark.promise("P8")
def test_runs_started_before_and_during_redis_broker_outage_succeed(
    server: RedisServer,
    cluster: Start,
    book: Path,
    amount: Callable[[int, int], int],
    figures: Callable[[str], None],
) -> None:
    supervised = cluster("hitl", "worker", TEST_REDIS_URL=server.url).ready()
    before = start_laps(book, 8)
    asked = services.start("interview", {"log": []})
    supervised.wait_for(lambda: states([asked.id]) == {"interrupted": 1})

    server.kill()  # this also deletes all messages
    during = start_laps(book, 8)
    services.decide(Interrupt.objects.get(status="pending").pk, "respond", "one")
    assert states(during) == {"queued": 8}
    away = amount(0, 60)
    threading.Event().wait(away)

    server.start()
    back = time.monotonic()
    supervised.wait_for(all_succeeded([*before, *during]))
    supervised.wait_for(lambda: states([asked.id]) == {"interrupted": 1})
    caught_up = time.monotonic() - back
    services.decide(Interrupt.objects.get(status="pending").pk, "respond", "two")
    supervised.wait_for(all_succeeded([asked.id]))
    assert supervised.stop() == 0
    figures(
        f"broker down for {away} s: {len(before + during)} runs finished {caught_up:.1f} s later"
    )


@pytest.mark.promise("P8")
def test_runs_whose_redis_messages_were_lost_with_killed_cluster_succeed(
    server: RedisServer, cluster: Start, book: Path
) -> None:
    supervised = cluster("hitl", "worker", TEST_REDIS_URL=server.url).ready()
    runs = start_laps(book, 10)
    supervised.wait_for(lambda: book.read_text() != "")
    os.killpg(supervised.main(), signal.SIGKILL)
    supervised.wait_for(all_succeeded(runs))


@pytest.mark.promise("P8")
@pytest.mark.parametrize("broker", ["orm", "redis"])
def test_runs_whose_messages_are_signed_with_old_secret_key_succeed(
    request: pytest.FixtureRequest, cluster: Start, book: Path, broker: str
) -> None:
    url = request.getfixturevalue("server").url if broker == "redis" else ""
    runs = start_laps(book, 10, laps=1, seconds=0)
    for run in runs:
        enqueue_run(run)  # With the ORM broker, runs need no messages.
    rotated = cluster("hitl", "worker", TEST_SECRET_KEY="new", TEST_REDIS_URL=url)
    rotated.wait_for(all_succeeded(runs))
    assert "Failed to push task to queue" in rotated.log.read_text()
