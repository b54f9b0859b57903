"""Fifty users who decide concurrently over HTTP, with WSGI and ASGI."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from hitl_django import audit, services, testing
from hitl_django.models import AuditEntry, Decision, Interrupt, PendingWrite, Run
from tests.api.servers import PASSWORD, USER, Client, Server
from tests.chaos import invariants

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

PEOPLE = 50


@pytest.fixture(params=["gunicorn processes", "uvicorn processes"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    get_user_model().objects.create_superuser(USER, password=PASSWORD)
    server = Server(request.param, tmp_path / "log")
    yield server
    server.stop()


@pytest.fixture
def pending_interrupts(amount: Callable[[int, int], int]) -> list[Interrupt]:
    with testing.inline() as advance:
        for _ in range(amount(2, 20)):
            services.start("approval", {"text": "x"})
        advance()
    return list(Interrupt.objects.all())


def decide_at_once(
    server: Server, interrupt: Interrupt, request: Callable[[int], dict[str, Any]]
) -> list[tuple[int, dict[str, Any], Any]]:
    """Send the decisions of all users simultaneously, and return the responses."""
    barrier = threading.Barrier(PEOPLE)

    def decide(number: int) -> tuple[int, dict[str, Any], Any]:
        wanted = request(number)
        barrier.wait()
        path = f"interrupts/{interrupt.pk}/decisions/"
        with Client(server).send("POST", path, **wanted) as answer:
            return answer.status, dict(answer.headers), json.load(answer)

    with ThreadPoolExecutor(PEOPLE) as pool:
        return list(pool.map(decide, range(PEOPLE)))


def recorded_once(interrupt: Interrupt) -> Decision:
    """Return the only decision on an interrupt, after checking its audit log entry and message."""
    interrupt.refresh_from_db()
    assert interrupt.status == Interrupt.Status.DECIDED
    decision = Decision.objects.get(interrupt=interrupt)
    assert AuditEntry.objects.filter(thread=interrupt.thread, verb="decide").count() == 1
    assert PendingWrite.objects.filter(thread=interrupt.thread, slot=-4).count() == 1
    assert Run.objects.get(pk=interrupt.run_id).state == Run.State.QUEUED
    assert audit.find_first_fault(interrupt.thread) is None
    return decision


@pytest.mark.promise("P1")
def test_concurrent_http_decisions_store_the_first_and_return_409_for_all_later_requests(
    server: Server, pending_interrupts: list[Interrupt], figures: Callable[[str], None]
) -> None:
    def different(number: int) -> dict[str, Any]:
        kind = "approve" if number % 2 else "reject"
        return {"body": {"type": kind, "reason": str(number)}}

    for interrupt in pending_interrupts:
        answers = decide_at_once(server, interrupt, different)
        assert Counter(status for status, _, _ in answers) == {202: 1, 409: PEOPLE - 1}
        (won,) = (body for status, _, body in answers if status == 202)
        decision = recorded_once(interrupt)
        assert (won["id"], won["reason"]) == (str(decision.pk), decision.reason)
        late = [body for status, _, body in answers if status == 409]
        assert all(body["code"] == "already_decided" for body in late)
        assert all(body["decision"] == won for body in late)
    assert invariants.faults() == []
    figures(f"{PEOPLE} concurrent requests × {len(pending_interrupts)} rounds: one decision each")


@pytest.mark.promise("P2")
def test_concurrent_http_requests_with_one_idempotency_key_store_one_decision(
    server: Server, pending_interrupts: list[Interrupt]
) -> None:
    same = {"body": {"type": "respond", "value": {"same": True}}, "Idempotency-Key": "one"}
    for interrupt in pending_interrupts:
        answers = decide_at_once(server, interrupt, lambda number: same)
        assert Counter(status for status, _, _ in answers) == {202: PEOPLE}
        assert sum("Idempotent-Replayed" not in headers for _, headers, _ in answers) == 1
        decision = recorded_once(interrupt)
        assert {body["id"] for _, _, body in answers} == {str(decision.pk)}
