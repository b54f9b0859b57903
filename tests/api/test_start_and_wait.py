"""Starting a run over HTTP and waiting for its result."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from hitl_django import services
from hitl_django.api import waiting_response
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner
from tests.clock import module_time

from .test_events import THREADS

#: A streamed response closes its connection at the end, so a test transaction would be lost.
pytestmark = pytest.mark.django_db(transaction=True)

ONCE = {"HTTP_IDEMPOTENCY_KEY": "once"}


@pytest.fixture(autouse=True)
def brief(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 0.05, "EVENT_POLL_SECONDS": 0.01}


@pytest.fixture
def wait(api: Any, invoice: str) -> Callable[..., Any]:
    def start(client: Any = api, seconds: int = 20, **options: Any) -> Any:
        body = {"graph": invoice, "input": {"amount": 12}, "events": []}
        return client.post("runs", body=body, query=f"wait={seconds}", **{**THREADS, **options})

    return start


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Run a worker while a request waits, until the request ends."""
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 600}

    def work(seconds: float) -> None:
        for run in Run.objects.filter(state="queued"):
            runner.advance(str(run.pk))

    monkeypatch.setattr(waiting_response, "time", module_time(sleep=work))


@pytest.mark.usefixtures("worker")
def test_run_creation_with_wait_returns_the_run_with_its_interrupt(
    api: Any, wait: Callable[..., Any]
) -> None:
    response = wait()
    assert (response.status_code, response.streaming) == (202, True)
    shown = json.loads(b"".join(response))
    assert shown["state"] == "interrupted"
    assert [each["id"] for each in shown["interrupts"]] == [str(Interrupt.objects.get().pk)]
    assert response["Location"] == shown["url"]
    assert shown == api.get("run", shown["id"]).json()
    assert waiting_response._threads.count == 0


@pytest.mark.usefixtures("worker")
def test_run_creation_repeated_with_wait_after_decision_returns_the_result(
    api: Any, wait: Callable[..., Any]
) -> None:
    json.loads(b"".join(wait(**ONCE)))
    services.decide(Interrupt.objects.get().pk, "approve", {"amount": 7})
    again = wait(**ONCE)
    assert (again.status_code, again["Idempotent-Replayed"]) == (200, "true")
    shown = json.loads(b"".join(again))
    assert (shown["state"], shown["result"]) == ("succeeded", services.run_result(shown["id"]))
    # An ended run isn't waited for.
    last = wait(**ONCE)
    assert (last.streaming, last.status_code, last.json()) == (False, 200, shown)


def test_run_creation_with_wait_returns_queued_run_at_the_configured_limit(
    wait: Callable[..., Any],
) -> None:
    response = wait(seconds=3600)
    assert waiting_response._threads.count == 1
    shown = json.loads(b"".join(response))
    assert (response.status_code, shown["state"]) == (202, "queued")
    assert "result" not in shown
    assert waiting_response._threads.count == 0
    assert Run.objects.get().state == "queued"


def test_run_creation_with_wait_returns_retry_after_if_too_many_responses_are_waiting(
    wait: Callable[..., Any],
) -> None:
    first, second = wait(), wait()
    assert (first.streaming, second.streaming) == (True, False)
    assert (second.status_code, second["Retry-After"]) == (202, "1")
    assert (second.json()["state"], second.json()["interrupts"]) == ("queued", [])
    assert Run.objects.count() == 2
    first.close()
    single = wait(**{"wsgi.multithread": False})
    assert (single.streaming, single["Retry-After"]) == (False, "1")


@pytest.mark.usefixtures("worker")
def test_run_creation_with_wait_and_atomic_requests_commits_before_waiting(
    wait: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    response = wait()
    assert not connection.in_atomic_block
    assert json.loads(b"".join(response))["state"] == "interrupted"


def test_run_creation_with_wait_zero_returns_202_without_interrupts(
    wait: Callable[..., Any],
) -> None:
    response = wait(seconds=0)
    assert (response.streaming, response.status_code) == (False, 202)
    assert "interrupts" not in response.json()


@pytest.mark.parametrize("query", ["wait=3601", "wait=-1", "wait=", "wait=1&wait=2", "graph=x"])
def test_run_creation_with_invalid_wait_returns_400_and_starts_no_run(
    api: Any, invoice: str, query: str
) -> None:
    body = {"graph": invoice, "input": {"amount": 12}}
    assert api.post("runs", body=body, query=query).status_code == 400
    assert not Run.objects.exists()


@pytest.mark.promise("P18")
@pytest.mark.usefixtures("worker")
def test_run_creation_with_wait_returns_no_interrupt_without_view_permission(
    as_role: Any, wait: Callable[..., Any]
) -> None:
    shown = json.loads(b"".join(wait(as_role("starter"))))
    assert (shown["state"], shown["interrupts"]) == ("interrupted", [])
    assert "error" not in shown
