"""An unavailable or busy database: error responses, and no partial changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection

from hitl_django.api import problems
from hitl_django.db import outages
from hitl_django.models import AuditEntry, Comment, Decision, Interrupt, Run, RunEvent, Thread

pytestmark = pytest.mark.django_db(transaction=True)

#: Requests that write: the name of the URL and the body.
WRITES: dict[str, tuple[str, dict[str, Any]]] = {
    "a start": ("runs", {"graph": "invoice", "input": {"amount": 3}}),
    "a decision": ("decisions", {"type": "respond", "value": "yes"}),
    "a claim": ("claim", {}),
    "a remark": ("comments", {"text": "Dana called."}),
    "an end": ("run-cancel", {"reason": "too late"}),
}
PLACES = {"decisions": "pk", "claim": "pk", "comments": "pk", "run-cancel": "run_id"}


class Failing:
    """Fail from the n-th statement on, as after an outage of the database server."""

    def __init__(self, nth: int) -> None:
        self.nth, self.count = nth, 0

    def __call__(self, execute: Callable[..., Any], *args: Any) -> Any:
        self.count += 1
        if self.count >= self.nth:
            raise OperationalError("server closed the connection unexpectedly")
        return execute(*args)


def everything() -> list[Any]:
    kinds = (Thread, Run, RunEvent, Interrupt, Decision, AuditEntry, Comment)
    return [list(kind.objects.order_by("pk").values()) for kind in kinds]


def assert_unavailable(response: Any) -> None:
    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
    assert response["Content-Type"] == "application/problem+json"
    assert response["Retry-After"] == "5"


@pytest.mark.promise("P3")
@pytest.mark.parametrize("write", WRITES)
def test_write_request_with_any_failing_statement_returns_503_and_writes_no_row(
    write: str, api: Any, asked: Callable[..., Interrupt]
) -> None:
    name, body = WRITES[write]
    interrupt = asked(free=True)
    places = [getattr(interrupt, PLACES[name])] if name in PLACES else []
    api.post(name, *places, body=[])  # values that are read once per process have been read
    before, nth = everything(), 0
    while True:
        nth += 1
        with connection.execute_wrapper(Failing(nth)):
            response = api.post(name, *places, body=body)
        if response.status_code < 300:
            break
        assert_unavailable(response)
        assert everything() == before
    assert nth > 3
    assert everything() != before


@pytest.mark.promise("P2")
def test_claim_next_repeated_with_its_key_after_503_claims_one_interrupt(
    api: Any, asked: Callable[..., Interrupt]
) -> None:
    interrupts, nth, status = [asked(free=True) for _ in range(3)], 0, 503
    while status == 503:
        nth += 1
        with connection.execute_wrapper(Failing(nth)):
            response = api.post("next", HTTP_IDEMPOTENCY_KEY="once")
        status = response.status_code
    assert nth > 4
    assert (status, response.json()["id"]) == (200, str(interrupts[0].pk))
    assert Interrupt.objects.filter(claimed_by__isnull=False).count() == 1


def test_read_request_with_failing_statement_returns_503_and_logs_the_error(
    api: Any, asked: Callable[..., Interrupt], caplog: pytest.LogCaptureFixture
) -> None:
    interrupt = asked()
    with connection.execute_wrapper(Failing(1)):
        assert_unavailable(api.get("interrupt", interrupt.pk))
    (record,) = (record for record in caplog.records if record.name == "hitl_django")
    assert record.exc_info is not None


@pytest.fixture
def read_only() -> Iterator[None]:
    """Make the server refuse writes, like a standby or a database over its quota."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    connection.close()
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        cursor.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


@pytest.mark.database("postgresql")
def test_write_request_on_read_only_database_returns_503_and_reads_succeed(
    api: Any, asked: Callable[..., Interrupt], request: pytest.FixtureRequest
) -> None:
    interrupt = asked(free=True)
    places = {name: [getattr(interrupt, column)] for name, column in PLACES.items()}
    request.getfixturevalue("read_only")
    for name, body in WRITES.values():
        assert_unavailable(api.post(name, *places.get(name, []), body=body))
    assert api.get("interrupt", interrupt.pk).status_code == 200


@pytest.fixture
def locked() -> Iterator[sqlite3.Connection]:
    """Simulate another process with a long write transaction."""
    connection.ensure_connection()
    connection.connection.execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        yield other
    connection.close()


@pytest.mark.database("sqlite")
def test_decision_on_locked_sqlite_database_returns_503_and_succeeds_later(
    api: Any, asked: Callable[..., Interrupt], monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    interrupt = asked(free=True)
    # The connection stays open after a request. Its timeout must be short in this test.
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: None)
    other = request.getfixturevalue("locked")
    assert_unavailable(api.post("decisions", interrupt.pk, body={"type": "approve"}))
    assert api.get("interrupt", interrupt.pk).json()["status"] == "pending"
    other.execute("ROLLBACK")
    assert api.post("decisions", interrupt.pk, body={"type": "approve"}).status_code == 202


def test_bulk_decision_during_outage_returns_503_for_remaining_items_without_trying_each(
    api: Any, asked: Callable[..., Interrupt], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hitl_django import services

    pks, tried = [str(asked(free=True).pk) for _ in range(4)], []
    decide = services.decide

    def once(pk: Any, *args: Any, **options: Any) -> Any:
        tried.append(pk)
        if len(tried) > 1:
            raise OperationalError("the database system is shutting down")
        return decide(pk, *args, **options)

    monkeypatch.setattr(services, "decide", once)
    body = {"decisions": [{"interrupt": pk, "type": "approve"} for pk in pks]}
    results = api.post("decisions-bulk", body=body).json()["results"]
    assert [result["status"] for result in results] == [202, 503, 503, 503]
    assert [result["interrupt"] for result in results] == pks
    assert results[3]["problem"]["code"] == "database_unavailable"
    assert len(tried) == 2


def test_database_programming_error_is_raised_instead_of_503() -> None:
    with closing(sqlite3.connect(":memory:")) as database, pytest.raises(sqlite3.Error) as raised:
        database.execute("SELECT * FROM nothing")
    missing = OperationalError("no such table: nothing")
    missing.__cause__ = raised.value
    assert problems.find_problem_type(missing) is None
    assert not outages.is_outage(RuntimeError())
    answer = problems.find_problem_type(InterfaceError("connection already closed"))
    assert answer is not None
    assert answer.status == 503
