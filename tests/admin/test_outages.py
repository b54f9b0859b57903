"""The error page for an unavailable database, which preserves submitted text."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.test import Client, RequestFactory
from django.urls import reverse

from hitl_django import services
from hitl_django.admin import outage_page
from hitl_django.models import Decision, Interrupt

from .addresses import ADDRESSES, address_of, body_of, rows
from .browsing import post_of, sheet_of
from .conftest import list_of, page_of

__all__ = ["rows"]  # the fixture

TEXT = 'She "called" <b>twice</b>.\r\n\r\n  Sounds honest & kind.'


class Refused:
    """Fail from the n-th statement on, as after an outage of the database server."""

    def __init__(self, nth: int) -> None:
        self.nth, self.count = nth, 0

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        self.count += 1
        if self.count >= self.nth:
            raise OperationalError("server closed the connection unexpectedly")
        return execute(*arguments)


@contextmanager
def away(nth: int = 1) -> Iterator[Refused]:
    wrapper = Refused(nth)
    with connection.execute_wrapper(wrapper):
        yield wrapper


@pytest.fixture
def root(admin_user: Any) -> Client:
    client = Client(raise_request_exception=True)
    client.force_login(admin_user)
    return client


def assert_away(response: Any) -> str:
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert "no-store" in response["Cache-Control"]
    html = str(response.content.decode())
    assert "Database unavailable" in html
    assert "Retry" in html
    return html


@pytest.mark.any_database
@pytest.mark.slow
def test_every_admin_page_during_database_outage_shows_outage_page_with_typed_reason(
    root: Client, rows: dict[str, Any]
) -> None:
    for name in ADDRESSES:
        if name.endswith("_row"):
            continue  # redirects without a query
        url = address_of(name, rows)
        with away():
            assert_away(root.get(url))
            sent: Any = root.post(url, body_of(name, rows))
        assert 'name="reason" value="because"' in assert_away(sent), name


@pytest.mark.parametrize("page", ["queue", "question", "run"])
@pytest.mark.slow
def test_admin_page_with_a_failing_database_statement_shows_outage_page_or_returns_200(
    page: str, root: Client, rows: dict[str, Any]
) -> None:
    urls = {
        "queue": list_of(),
        "question": page_of(rows["reviewitem"]),
        "run": page_of(rows["run"], "run"),
    }
    nth = 0
    while True:
        nth += 1
        with away(nth) as statements:
            response: Any = root.get(urls[page])
        if statements.count < nth:
            break
        assert_away(response)
    assert response.status_code == 200
    assert nth > 5


@pytest.mark.promise("P3")
@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_decision_failing_at_any_statement_can_be_resubmitted_from_the_outage_page(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    form = sheet_of(root, item)
    body: dict[str, Any] = {**form, "decision": "approve", "reason": TEXT, "password": "hunter two"}
    nth = 0
    while True:
        nth += 1
        with away(nth):
            response: Any = root.post(page_of(item), body)
        if response.status_code == 302:
            break
        html = assert_away(response)
        assert "hunter" not in html
        body = {name: values for name, values in post_of(html).items() if name != "password"}
        assert body["reason"] == [TEXT]
    assert nth > 10
    decision = Decision.objects.get()
    assert (decision.type, decision.reason) == ("approve", TEXT)


@pytest.mark.database("postgresql")
def test_decision_on_read_only_database_shows_outage_page_with_typed_reason(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    body: dict[str, Any] = {**sheet_of(root, item), "decision": "approve", "reason": TEXT}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        html = assert_away(root.post(page_of(item), body))
        transaction.set_rollback(True)
    assert "Sounds honest &amp; kind." in html


@pytest.mark.any_database
def test_outage_page_omits_entered_values_above_the_size_limit(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    with mock.patch.object(outage_page, "MAX_KEPT", 10), away():
        html = assert_away(root.post(page_of(item), {"reason": TEXT}))
    assert "Back button" in html
    assert "honest" not in html


@pytest.mark.any_database
def test_outage_page_with_language_code_de_is_in_german(
    root: Client, asked: Callable[..., Interrupt], settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    item = asked()
    with away():
        response: Any = root.get(page_of(item))
    assert "Datenbank nicht erreichbar" in response.content.decode()
    assert '<html lang="de"' in response.content.decode()


@pytest.mark.any_database
def test_database_programming_error_is_raised_instead_of_outage_page(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()

    def broken(execute: Any, *arguments: Any) -> Any:
        raise ProgrammingError("no such column")

    with connection.execute_wrapper(broken), pytest.raises(ProgrammingError):
        root.get(page_of(item))


@pytest.mark.any_database
def test_outage_log_entry_contains_the_error_and_no_form_values(
    root: Client, asked: Callable[..., Interrupt], caplog: Any
) -> None:
    item = asked()
    with caplog.at_level(logging.DEBUG), away():
        root.post(page_of(item), {"reason": "a secret of hers"})
    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in told] == ["the admin can't reach the database"]
    assert "a secret" not in caplog.text
    assert not any(hasattr(record, "request") for record in told)


@pytest.mark.any_database
def test_decision_before_outage_with_setting_atomic_requests_is_rolled_back(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    form = sheet_of(root, item)

    def decide(request: Any) -> Any:
        services.decide(item.pk, "approve", by=request.user)
        raise OperationalError("server closed the connection unexpectedly")

    view = outage_page.answer_outages(decide)
    assert "default" in view._non_atomic_requests
    request = RequestFactory().post("/", form)
    request.user = get_user_model().objects.get()
    with mock.patch.dict(connection.settings_dict, ATOMIC_REQUESTS=True):
        assert_away(view(request))
    assert not Decision.objects.exists()


@pytest.mark.database("sqlite")
@pytest.mark.django_db(transaction=True)
def test_decision_on_locked_sqlite_database_can_be_resubmitted_from_the_outage_page(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    form = sheet_of(root, item)
    body: dict[str, Any] = {**form, "decision": "approve", "reason": TEXT}
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        other.execute("BEGIN IMMEDIATE")
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 50")
        html = assert_away(root.post(page_of(item), body))
        other.rollback()
    assert root.post(page_of(item), post_of(html)).status_code == 302
    assert Decision.objects.get().reason == TEXT


@pytest.mark.any_database
def test_bulk_decision_during_outage_shows_outage_page_with_selected_requests(
    root: Client, rows: dict[str, Any]
) -> None:
    url = reverse("admin:hitl_django_reviewitem_bulk")
    with away():
        html = assert_away(root.post(url, {"item": ["one", "two"]}))
    assert post_of(html)["item"] == ["one", "two"]
