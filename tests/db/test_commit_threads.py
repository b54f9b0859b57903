"""OS threads for commits: reused, and closed when idle."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import connections

from hitl_django.db import commit_threads as module
from hitl_django.db.commit_threads import CommitThreads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def threads() -> Iterator[CommitThreads]:
    made = CommitThreads()
    yield made
    made.close()


def test_successive_async_commits_use_the_same_os_thread(threads: CommitThreads) -> None:
    seen: list[int] = []
    for _ in range(3):
        threads.submit(lambda: seen.append(threading.get_ident())).result(10)
    assert len(set(seen)) == 1
    assert threading.get_ident() not in seen


def test_parallel_async_commits_use_different_os_threads(threads: CommitThreads) -> None:
    both = threading.Barrier(2, timeout=10)
    met: list[int] = []
    stored = [threads.submit(lambda: met.append(both.wait())) for _ in range(2)]
    for one in stored:
        one.result(10)
    assert sorted(met) == [0, 1]


def test_failed_async_commit_raises_in_its_future_and_closes_the_connection(
    threads: CommitThreads,
) -> None:
    made: list[object] = []

    def fail() -> None:
        connections["default"].ensure_connection()
        made.append(connections["default"].connection)
        raise OSError("cut")

    def look() -> None:
        made.append(connections["default"].connection)

    with pytest.raises(OSError, match="cut"):
        threads.submit(fail).result(10)
    threads.submit(look).result(10)
    assert made[0] is not None
    assert made[1] is None


def test_idle_commit_os_thread_ends_and_a_new_os_thread_starts_for_next_commit(
    threads: CommitThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE", 0.01)
    seen: list[threading.Thread] = []
    threads.submit(lambda: seen.append(threading.current_thread())).result(10)
    seen[0].join(10)
    assert not seen[0].is_alive()
    threads.submit(lambda: None).result(10)


def test_commit_threads_in_forked_process_start_without_os_threads(threads: CommitThreads) -> None:
    threads.submit(lambda: None).result(10)
    threads.close()
    threads.submit(lambda: None).result(10)
    kept = threads._idle
    threads.reset()
    assert (threads._idle, len(kept)) == ([], 1)
    kept[0].inbox.put(None)
    kept[0].join(10)
