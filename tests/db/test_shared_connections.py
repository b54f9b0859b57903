"""Shared connections: reused for the next call, and closed when idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections

from hitl_django.db import shared_connections as module
from hitl_django.db.shared_connections import SharedConnections

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool() -> Iterator[SharedConnections]:
    made = SharedConnections()
    yield made
    made.close()


def on_a_new_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result(10)


def test_successive_os_threads_use_the_same_shared_database_connection(
    pool: SharedConnections,
) -> None:
    def call() -> Any:
        own = connections["default"]
        with pool.use("default") as shared:
            assert connections["default"] is shared
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT 1")
                assert cursor.fetchone() == (1,)
        assert connections["default"] is own
        assert own.connection is None
        return shared

    shared = [on_a_new_thread(call) for _ in range(3)]
    assert len(set(map(id, shared))) == 1
    assert shared[0] is not connections["default"]
    assert shared[0].connection is not None


def test_parallel_os_threads_use_separate_connections_or_wait_on_sqlite(
    pool: SharedConnections,
) -> None:
    is_lent, is_over = threading.Event(), threading.Event()

    def hold() -> Any:
        with pool.use("default") as shared:
            is_lent.set()
            assert is_over.wait(10)
            return shared

    def take() -> tuple[Any, bool]:
        with pool.use("default") as shared:
            return shared, is_over.is_set()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(hold)
        assert is_lent.wait(10)
        second = threads.submit(take)
        if connection.vendor == "sqlite":
            assert wait([second], timeout=0.2).not_done
        else:
            second.result(10)
        is_over.set()
        shared, came_after = second.result(10)
        assert came_after is (shared is first.result(10)) is (connection.vendor == "sqlite")


@pytest.mark.database("sqlite")
def test_os_threads_that_open_the_first_connection_at_once_share_one_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    both = threading.Barrier(2)

    def make_lock() -> Any:
        # The OS threads change here. A second one must not get as far as this.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        made.append(threading.RLock())
        return made[-1]

    def call() -> None:
        with shared_pool.use("default"):
            pass

    names = {**vars(threading), "RLock": make_lock}
    monkeypatch.setattr(module, "threading", SimpleNamespace(**names))
    shared_pool = SharedConnections()
    with closing(shared_pool), ThreadPoolExecutor(2) as threads:
        for ended in [threads.submit(call) for _ in range(2)]:
            ended.result(10)
    assert len(made) == 1


def test_shared_connection_is_available_again_after_failed_call(pool: SharedConnections) -> None:
    def fail() -> None:
        with pool.use("default"):
            raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            on_a_new_thread(fail)


def test_shared_connection_is_replaced_after_a_database_error(pool: SharedConnections) -> None:
    made: list[Any] = []

    def fail() -> None:
        own = connections["default"]
        with pytest.raises(DatabaseError):
            refuse()
        assert connections["default"] is own

    def refuse() -> None:
        with pool.use("default") as shared:
            made.append(shared)
            shared.cursor().execute("SELECT nothing FROM nowhere")

    on_a_new_thread(fail)
    with pool.use("default") as shared:
        assert shared is not made[0]
    assert made[0].connection is None


def test_unused_shared_connection_is_closed_after_the_idle_time(
    pool: SharedConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE", 0.01)
    closed = threading.Event()
    with pool.use("default") as shared:
        close = shared.close
        monkeypatch.setattr(shared, "close", lambda: (close(), closed.set()))
    assert closed.wait(10)
    assert shared.connection is None
    with pool.use("default") as other:
        assert other is not shared


def test_shared_connection_opened_inside_node_connection_context_remains_open(
    pool: SharedConnections,
) -> None:
    from hitl_django.db.node_connections import close_node_connections

    with close_node_connections(), pool.use("default") as shared:
        pass
    assert shared.connection is not None


def test_shared_connection_of_parent_process_is_not_used_after_fork(
    pool: SharedConnections,
) -> None:
    with pool.use("default") as shared:
        pass
    pool.reset()
    with pool.use("default") as other:
        assert other is not shared
    shared.close()
    connection.ensure_connection()
