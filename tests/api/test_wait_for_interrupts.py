"""Long polling of the interrupt list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from hitl_django.api import waiting_response
from hitl_django.models import Interrupt
from tests.clock import module_time

from .test_events import THREADS

#: A streamed response closes its connection at the end, so a test transaction would be lost.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def brief(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 0.05, "EVENT_POLL_SECONDS": 0.01}


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Callable[..., None]:
    """Perform an action while a request waits, until the request ends."""
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 600}

    def arrange(*happens: Callable[[], object]) -> None:
        steps = iter(happens)
        clock = module_time(sleep=lambda seconds: next(steps)())
        monkeypatch.setattr(waiting_response, "time", clock)

    return arrange


def test_interrupt_list_with_wait_returns_when_a_matching_interrupt_is_created(
    api: Any, make_interrupt: Callable[..., Interrupt], meanwhile: Callable[..., None]
) -> None:
    make_interrupt(node="another")
    meanwhile(make_interrupt, lambda: make_interrupt(node="pay"))
    response = api.get("interrupts", query="node=pay&wait=20", **THREADS)
    assert (response.status_code, response.streaming) == (200, True)
    page = json.loads(b"".join(response))
    assert [each["node"] for each in page["results"]] == ["pay"]
    assert page == api.get("interrupts", query="node=pay").json()
    assert waiting_response._threads.count == 0


def test_interrupt_list_with_wait_and_existing_interrupt_returns_immediately(
    api: Any, make_interrupt: Callable[..., Interrupt]
) -> None:
    make_interrupt()
    response = api.get("interrupts", query="unclaimed=true&wait=20", **THREADS)
    assert (response.streaming, len(response.json()["results"])) == (False, 1)


def test_interrupt_list_with_wait_returns_empty_page_at_the_configured_limit(api: Any) -> None:
    response = api.get("interrupts", query="wait=3600", **THREADS)
    assert waiting_response._threads.count == 1
    assert json.loads(b"".join(response)) == {"next": None, "previous": None, "results": []}
    assert waiting_response._threads.count == 0


def test_interrupt_list_with_wait_returns_retry_after_if_too_many_responses_are_waiting(
    api: Any,
) -> None:
    first, second = (api.get("interrupts", query="wait=20", **THREADS) for _ in range(2))
    assert (first.streaming, second.streaming) == (True, False)
    assert (second.json()["results"], second["Retry-After"]) == ([], "1")
    first.close()
    single = api.get("interrupts", query="wait=20", **{"wsgi.multithread": False})
    assert (single.streaming, single["Retry-After"]) == (False, "1")


@pytest.mark.promise("P18")
def test_interrupt_list_with_wait_ignores_interrupts_hidden_from_the_user(
    as_role: Any, make_interrupt: Callable[..., Interrupt]
) -> None:
    make_interrupt()
    response = as_role("starter").get("interrupts", query="wait=20", **THREADS)
    assert json.loads(b"".join(response))["results"] == []


def test_interrupt_list_with_wait_and_atomic_requests_leaves_no_transaction_open(
    api: Any, make_interrupt: Callable[..., Interrupt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    response = api.get("interrupts", query="wait=20", **THREADS)
    assert not connection.in_atomic_block
    assert json.loads(b"".join(response))["results"] == []


@pytest.mark.parametrize("query", ["wait=3601", "wait=-1", "wait=", "wait=1&wait=2", "wait=soon"])
def test_interrupt_list_with_invalid_wait_returns_400_naming_the_parameter(
    api: Any, query: str
) -> None:
    response = api.get("interrupts", query=query)
    assert response.status_code == 400
    assert [each["parameter"] for each in response.json()["errors"]] == ["wait"]
