"""Statements sent directly to the driver, with the guarantees of Django's cursors."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections, transaction
from django.db.models import F, Q, TextField
from django.db.transaction import TransactionManagementError

from hitl_django.db import raw_cursor
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import Parameter, PreparedSelect, PreparedUpdate
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import LeaseLostError
from hitl_django.models import Thread
from tests import databases

pytestmark = [pytest.mark.sessions, pytest.mark.django_db(transaction=True)]

NAMED = Parameter("name", TextField())
FIND = PreparedSelect(lambda: Thread.objects.filter(thread_id=NAMED).values_list("pk", "graph"))
# A percent sign that the ORM inlines must also reach the database.
MATCH = PreparedSelect(
    lambda: Thread.objects.filter(thread_id__startswith="50%").values_list("thread_id")
)
EPOCH = PreparedSelect(lambda: Thread.objects.filter(thread_id=NAMED).values_list("epoch"))
COUNT = PreparedUpdate(
    Thread, Q(thread_id=NAMED), lambda: {"epoch": F("epoch") + 1}, returning=["epoch"]
)
MAKE = BulkInsert(Thread, insertable_columns(Thread), fresh=True)


def make(*names: str) -> None:
    MAKE.run(DEFAULT_DB_ALIAS, [MAKE.values_of(Thread(thread_id=name)) for name in names])


def counted(name: str, error: type[Exception] | None = None) -> WriteBatch:
    batch = WriteBatch(DEFAULT_DB_ALIAS)
    batch.guard(COUNT, {"name": name}, error)
    return batch


@pytest.mark.database("postgresql")
def test_prepared_query_reopens_unusable_database_connection() -> None:
    assert FIND.run(DEFAULT_DB_ALIAS, name="a") == []
    wrapper = connections[DEFAULT_DB_ALIAS]
    lost = wrapper.connection
    wrapper.health_check_enabled, wrapper.health_check_done = True, False
    with patch.object(wrapper, "is_usable", return_value=False):
        assert FIND.run(DEFAULT_DB_ALIAS, name="a") == []
    assert wrapper.connection is not lost


@pytest.mark.usefixtures("preparing")
def test_prepared_statements_executed_ten_times_return_equal_rows() -> None:
    make("a", "b")
    for _ in range(10):  # PostgreSQL considers a generic plan after the fifth execution
        assert counted("a").commit() == counted("b").commit()
        assert len(FIND.run(DEFAULT_DB_ALIAS, name="a")) == 1
    assert set(Thread.objects.values_list("epoch", flat=True)) == {10}
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_prepared_statements")
            assert cursor.fetchone()[0] >= 3


def test_prepared_query_inlines_model_defaults_and_passes_other_values_as_parameters() -> None:
    # Otherwise a generic plan couldn't use an index for the rows of one state.
    free = PreparedSelect(
        lambda: Thread.objects.filter(thread_id=NAMED, graph="", attempts=0, lease_owner="a 'b'")
    )
    text, values = free.ready(connection, {"name": "0'); --"})
    assert sorted(values) == ["0'); --", "a 'b'"]
    assert "= ''" in text
    assert "= 0" in text


def test_execute_wrapper_receives_every_prepared_statement_and_write_batch() -> None:
    seen: list[str] = []

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql.split()[0])
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        make("a")
        counted("a").commit()
        FIND.run(DEFAULT_DB_ALIAS, name="a")
    done = [word for word in seen if word != "BEGIN"]
    assert done == ["INSERT", "WITH" if connection.vendor == "postgresql" else "UPDATE", "SELECT"]


@pytest.mark.parametrize("keeps", [False, True], ids=["plans anew", "keeps plans"])
def test_prepared_query_matches_percent_signs_and_dollar_marks_literally(
    keeps: bool, request: pytest.FixtureRequest
) -> None:
    if keeps:
        request.getfixturevalue("preparing")
    make("50%s off", "%s", "other")
    assert MATCH.run(DEFAULT_DB_ALIAS) == [("50%s off",)]
    assert len(FIND.run(DEFAULT_DB_ALIAS, name="%s")) == 1
    names = [f"{number} $1 %s" for number in range(1000)]  # the text is too long for the cache
    make(*names)
    assert len(FIND.run(DEFAULT_DB_ALIAS, name=names[-1])) == 1


@pytest.mark.parametrize("keeps", [False, True], ids=["plans anew", "keeps plans"])
@pytest.mark.parametrize("is_watched", [False, True])
def test_read_combined_with_write_batch_returns_the_written_values(
    keeps: bool, is_watched: bool, request: pytest.FixtureRequest
) -> None:
    if keeps:
        request.getfixturevalue("preparing")
    make("a", "b")
    watched = connection.execute_wrapper(lambda execute, *rest: execute(*rest))
    with watched if is_watched else nullcontext():
        for times in (1, 2):
            batch = counted("a")
            epochs = batch.prefetch(EPOCH, {"name": "a"})
            others = batch.prefetch(FIND, {"name": "absent"})
            assert batch.commit() == [(times,)]
            assert (epochs.rows, others.rows) == ([(times,)], [])
    unmet = counted("absent")
    nothing = unmet.prefetch(EPOCH, {"name": "a"})
    assert unmet.commit() == []
    assert nothing.rows == (None if connection.vendor == "sqlite" else [(2,)])


@pytest.mark.usefixtures("preparing")
@pytest.mark.database("postgresql")
def test_write_batch_is_rolled_back_if_its_combined_read_fails() -> None:
    make("a")
    batch = counted("a")
    batch.prefetch(PreparedSelect(lambda: Thread.objects.values_list(1 / F("attempts"))), {})
    with pytest.raises(DatabaseError, match="zero"):
        batch.commit()
    assert FIND.run(DEFAULT_DB_ALIAS, name="a")
    assert Thread.objects.get().epoch == 0
    assert counted("a").commit() == [(1,)]


@pytest.mark.usefixtures("preparing")
@pytest.mark.database("postgresql")
def test_read_combined_with_write_batch_sees_rows_committed_while_waiting_for_lock() -> None:
    make("a")
    found: list[Any] = []

    def wait() -> None:
        try:
            batch = counted("a")
            made = batch.prefetch(FIND, {"name": "b"})
            batch.commit()
            found.extend(made.rows or [])
        finally:
            connections.close_all()

    other = threading.Thread(target=wait)
    with transaction.atomic(), connection.cursor() as cursor:
        Thread.objects.select_for_update().get()
        other.start()
        while other.is_alive() and not databases.is_waited_for(cursor):
            pass
        make("b")
    other.join()
    assert [graph for _, graph in found] == [""]


def test_write_batch_with_failed_condition_leaves_no_open_transaction() -> None:
    make("a")
    with pytest.raises(LeaseLostError):
        counted("absent", LeaseLostError).commit()
    twice = counted("a")
    twice.insert(MAKE, [MAKE.values_of(Thread(thread_id="a"))])
    with pytest.raises(DatabaseError):
        twice.commit()
    assert Thread.objects.get().epoch == 0
    assert not connection.in_atomic_block
    found: list[Any] = []
    # Another connection can write immediately, because no transaction is open.
    other = threading.Thread(target=lambda: found.extend(elsewhere()))
    other.start()
    other.join()
    assert found == [(1,)]


def elsewhere() -> list[Any]:
    try:
        return counted("a").commit()
    finally:
        connections.close_all()


def test_prepared_query_in_broken_transaction_raises_transaction_management_error() -> None:
    with transaction.atomic():
        make("a")
        connection.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            FIND.run(DEFAULT_DB_ALIAS, name="a")
    assert not Thread.objects.exists()


def test_prepared_query_reopens_closed_database_connection() -> None:
    make("a")
    assert len(FIND.run(DEFAULT_DB_ALIAS, name="a")) == 1
    connection.close()
    assert len(FIND.run(DEFAULT_DB_ALIAS, name="a")) == 1


def test_prepared_query_on_event_loop_raises_synchronous_only_operation() -> None:
    async def look() -> None:
        FIND.run(DEFAULT_DB_ALIAS, name="a")

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(look())


def test_open_cursor_with_connection_of_another_os_thread_raises_database_error() -> None:
    refused: list[str] = []
    mine = connections[DEFAULT_DB_ALIAS]

    def use() -> None:
        try:
            raw_cursor.open_cursor(mine)
        except DatabaseError as error:
            refused.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "same thread" in refused[0]
