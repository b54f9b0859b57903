"""Detection of a lost database, and of its alias, from a statement's error."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, Error, IntegrityError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from hitl_django.db.outages import is_database_lost
from tests.databases import end_session

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[], Any]


def raised(act: Act) -> Exception:
    with pytest.raises(Exception) as found:
        act()
    return found.value


def query(sql: str = "SELECT 1") -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    yield
    connection.close()


def within(statement: str, act: Act) -> Act:
    def run() -> None:
        with transaction.atomic():
            query(statement)
            act()

    return run


def at_once() -> None:
    end_session()
    query()


def once_more() -> None:
    end_session()
    with pytest.raises(Error):
        query()
    query()


def at_commit() -> None:
    with transaction.atomic():
        end_session()


def at_the_next_begin() -> None:
    end_session()
    with transaction.atomic():
        query()


def while_it_works() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def translated() -> None:
    try:
        at_once()
    except Error as error:
        raise RuntimeError("the order could not be read") from error


def while_handled() -> None:
    try:
        at_once()
    except Error:
        raise LookupError("no such order")  # noqa: B904


def among_others() -> None:
    raise ExceptionGroup("two", [ValueError(), raised(at_once)])


def says(code: str) -> Act:
    return lambda: query(f"DO $$BEGIN RAISE SQLSTATE '{code}'; END$$")


LOST: dict[str, Act] = {
    "at once": at_once,
    "once more": once_more,
    "within": within("SELECT 1", at_once),
    "at commit": at_commit,
    "at the next begin": at_the_next_begin,
    "while it works": while_it_works,
    "translated": translated,
    "while handled": while_handled,
    "among others": among_others,
    **{code: says(code) for code in ("25P03", "25P04", "53100", "57P03", "58030")},
}


@pytest.mark.sessions
@pytest.mark.database("postgresql")
@pytest.mark.parametrize("how", LOST)
def test_is_database_lost_returns_true_for_terminated_session_of_that_database(how: str) -> None:
    error = raised(LOST[how])
    assert is_database_lost(error, "default")
    assert not is_database_lost(error, "another")


@pytest.mark.database("postgresql")
def test_is_database_lost_returns_true_for_unreachable_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    assert is_database_lost(raised(query), "default")


def break_unique_name() -> None:
    with transaction.atomic():
        Group.objects.create(name="twice")
        Group.objects.create(name="twice")


STATEMENTS: dict[str, Act] = {
    "wrong": lambda: query("SELECT nothing FROM nowhere"),
    "refused": break_unique_name,
}
ON_POSTGRESQL: dict[str, Act] = {
    "cancelled": within("SET LOCAL statement_timeout = 10", lambda: query("SELECT pg_sleep(9)")),
    **{code: says(code) for code in ("40001", "40P01", "55P03", "57014", "25006", "22003")},
}


@pytest.mark.parametrize("what", STATEMENTS)
def test_is_database_lost_returns_false_for_failed_statement(what: str) -> None:
    error = raised(STATEMENTS[what])
    assert isinstance(error, DatabaseError)
    assert not is_database_lost(error, "default")


@pytest.mark.database("postgresql")
@pytest.mark.parametrize("what", ON_POSTGRESQL)
def test_is_database_lost_returns_false_for_postgresql_timeout_or_rollback(what: str) -> None:
    error = raised(ON_POSTGRESQL[what])
    assert isinstance(error, DatabaseError)
    assert not is_database_lost(error, "default")


def test_is_database_lost_returns_false_for_error_raised_outside_the_database() -> None:
    for error in (IntegrityError("mine"), DatabaseError("mine"), OSError(errno.EPIPE, "pipe")):
        assert not is_database_lost(error, "default")


@contextmanager
def files(wrapper: BaseDatabaseWrapper, code: int) -> Iterator[None]:
    failure = sqlite3.OperationalError("the disk")
    failure.sqlite_errorcode = code
    with wrapper.wrap_database_errors:
        yield
        raise failure


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("code", "lost"),
    [
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR_FSYNC, True),
        (sqlite3.SQLITE_READONLY_DBMOVED, True),
        (sqlite3.SQLITE_CANTOPEN, True),
        (sqlite3.SQLITE_BUSY, False),
        (sqlite3.SQLITE_LOCKED, False),
        (sqlite3.SQLITE_ERROR, False),
    ],
)
def test_is_database_lost_returns_true_for_failing_and_false_for_locked_sqlite_file(
    code: int, lost: bool
) -> None:
    def fail() -> None:
        with files(connection, code):
            pass

    assert is_database_lost(raised(fail), "default") is lost


@pytest.mark.database("sqlite")
def test_is_database_lost_returns_true_for_full_sqlite_database() -> None:
    def fill() -> None:
        query("PRAGMA max_page_count = 1")  # as few as it has by now
        for number in range(10_000):
            Group.objects.create(name=f"{number:0>100000}")

    assert is_database_lost(raised(fill), "default")
