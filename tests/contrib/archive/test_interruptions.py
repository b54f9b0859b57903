"""Interrupted archiving: a thread is in the archive or in its original tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction

from hitl_django import services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import restore_thread
from hitl_django.models import Run, Thread
from tests import databases, processes
from tests.chaos.victim import CRASHED, Bomb

from .conftest import rows_of

pytestmark = pytest.mark.django_db(transaction=True)

Ended = Callable[..., Thread]


def archive_until(nth: int, after: bool) -> None:
    with connection.execute_wrapper(Bomb(nth, after)):
        archive_ended(30, 10)


def restore_until(nth: int, after: bool, thread_id: str) -> None:
    with connection.execute_wrapper(Bomb(nth, after)):
        restore_thread(thread_id)


@pytest.mark.crash
@pytest.mark.promise("P6")
@pytest.mark.parametrize("after", [False, True])
def test_archiving_or_restore_killed_at_any_statement_leaves_no_partially_moved_thread(
    ended: Ended, after: bool
) -> None:
    thread = ended()
    before = rows_of(thread)
    for act, given in ((archive_until, ()), (restore_until, (thread.thread_id,))):
        begun_at, deaths = Thread.objects.exists(), 0
        # The last kills happen after the commit, if the operation continues there.
        while Thread.objects.exists() == begun_at and run(act, deaths + 1, after, *given):
            deaths += 1
            is_there = Thread.objects.exists()
            assert is_there != ArchivedThread.objects.exists()
            assert not is_there or rows_of(thread) == before
        assert deaths > 15
        assert Thread.objects.exists() != begun_at
    assert rows_of(thread) == before


def run(act: Callable[..., None], *given: Any) -> bool:
    process = processes.start(act, *given)
    process.join(processes.PATIENCE)
    assert process.exitcode in (0, CRASHED)
    return bool(process.exitcode)


@pytest.mark.database("postgresql")
def test_start_concurrent_with_archiving_waits_and_restores_the_thread(ended: Ended) -> None:
    thread = ended(thread_id="talk")
    started: list[Any] = []

    def start() -> None:
        try:
            started.append(services.start("approval", {"text": "y"}, thread_id="talk"))
        finally:
            connections.close_all()

    late = threading.Thread(target=start)
    with transaction.atomic(), connection.cursor() as cursor:
        assert archive_ended(30, 10) == 1
        late.start()
        while late.is_alive() and not databases.is_waited_for(cursor):
            pass
    late.join()
    assert [run.created for run in started] == [True]
    assert Thread.objects.get().pk == thread.pk
    assert Run.objects.filter(thread=thread.pk).count() == 2
    assert not ArchivedThread.objects.exists()


@pytest.mark.database("postgresql")
def test_archive_skips_thread_locked_by_another_transaction(ended: Ended) -> None:
    held, other = ended(), ended()
    archived: list[int] = []

    def archive() -> None:
        try:
            archived.append(archive_ended(30, 10))
        finally:
            connections.close_all()

    beside = threading.Thread(target=archive)
    with transaction.atomic():
        Thread.objects.select_for_update().get(pk=held.pk)
        beside.start()
        beside.join()
    assert archived == [1]
    assert Thread.objects.get() == held
    assert ArchivedThread.objects.get().pk == other.pk
