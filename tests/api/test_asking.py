"""Asking a person over HTTP, waiting for the response, and withdrawing the interrupt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl_django import services
from hitl_django.api import waiting_response
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner
from tests.clock import module_time

from .test_events import THREADS

#: A streamed response closes its connection at the end, so a test transaction would be lost.
pytestmark = pytest.mark.django_db(transaction=True)

PAYLOAD = {"title": "Refund 99.00 EUR?", "order": "R-1"}
SCHEMA = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
BODY = {"payload": PAYLOAD, "response_schema": SCHEMA, "priority": -1, "due": 3600}


@pytest.fixture
def asker(as_role: Any) -> Any:
    return as_role("asker")


def test_post_interrupts_creates_a_pending_interrupt_that_its_creator_can_read(asker: Any) -> None:
    response = asker.post("interrupts", body=BODY)
    shown = response.json()
    assert (response.status_code, response["Location"]) == (201, shown["url"])
    assert (shown["status"], shown["payload"], shown["priority"]) == ("pending", PAYLOAD, -1)
    assert shown["response_schema"] == SCHEMA
    assert shown["due_at"] is not None
    assert shown == asker.get("interrupt", shown["id"]).json()
    assert asker.get("run", shown["run"]).json()["state"] == "interrupted"
    assert [each["id"] for each in asker.get("interrupts").json()["results"]] == [shown["id"]]


@pytest.mark.promise("P18")
def test_comments_of_reviewers_are_hidden_from_the_creator_of_the_interrupt(
    asker: Any, as_role: Any
) -> None:
    interrupt = asker.post("interrupts", body=BODY).json()["id"]
    services.comment(interrupt, "Don't tell them yet.")
    assert asker.get("comments", interrupt).status_code == 403
    assert len(as_role("viewer").get("comments", interrupt).json()["results"]) == 1


def test_post_interrupts_with_the_same_key_returns_the_same_interrupt(asker: Any) -> None:
    key = {"HTTP_IDEMPOTENCY_KEY": "refund:1"}
    first, again = (asker.post("interrupts", body=BODY, **key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again["Idempotent-Replayed"] == "true"
    assert first.json() == again.json()
    other = asker.post("interrupts", body={"payload": "Other?", "key": "refund:1"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Interrupt.objects.count() == 1


def test_post_interrupts_with_wait_returns_the_decision_after_the_undo_period(
    asker: Any, make_user: Any, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 600, "UNDO_SECONDS": 3600}
    asked = asker.post("interrupts", query="wait=20", body=BODY, **THREADS)
    row, decider = Interrupt.objects.get(), make_user(is_superuser=True)
    steps = iter(
        [
            lambda: services.decide(row.pk, "respond", {"cents": 5000}, by=decider),
            lambda: Run.objects.update(resumes_at=None, state="queued"),
        ]
    )
    clock = module_time(sleep=lambda seconds: next(steps)())
    monkeypatch.setattr(waiting_response, "time", clock)
    assert (asked.status_code, asked.streaming) == (201, True)
    shown = json.loads(b"".join(asked))
    assert (shown["settled"], shown["decision"]["value"]) == (True, {"cents": 5000})
    assert next(steps, None) is None
    again = asker.get("interrupt", row.pk, query="wait=20", **THREADS)
    assert (again.streaming, again.json()) == (False, shown)
    runner.advance(str(row.run_id))
    assert asker.get("run", row.run_id).json()["result"]["response"] == {"cents": 5000}


def test_delete_interrupt_withdraws_a_pending_interrupt_only(asker: Any) -> None:
    first, second = (asker.post("interrupts", body=BODY).json()["id"] for _ in range(2))
    assert [asker.call("DELETE", "interrupt", first).status_code for _ in range(2)] == [204, 204]
    assert asker.get("interrupt", first).json()["status"] == "cancelled"
    services.decide(second, "respond", {"cents": 1})
    late = asker.call("DELETE", "interrupt", second)
    assert (late.status_code, late.json()["code"]) == (409, "already_decided")


@pytest.mark.parametrize(
    ("change", "status", "pointer"),
    [
        ({"payload": "a\x00b"}, 422, "/payload"),
        ({"response_schema": {"minimum": "x"}}, 422, "/response_schema"),
        ({"response_schema": []}, 400, "/response_schema"),
        ({"group": "nobody"}, 422, "/group"),
        ({"assignee": "nobody"}, 422, "/assignee"),
        ({"subject": {"type": "auth.user", "id": "7"}}, 422, "/subject"),
        ({"quorum": 0}, 400, "/quorum"),
        ({"decisions": ["maybe"]}, 400, "/decisions/0"),
        ({"due": -1}, 400, "/due"),
        ({"due": "tomorrow"}, 400, "/due"),
        ({"expires": {"seconds": 60, "then": "escalate"}}, 400, "/expires/then"),
        ({"expires": {"seconds": 9, "then": "answer", "answer": {}}}, 422, "/expires/answer/cents"),
        ({"expires": {"seconds": 60}}, 400, "/expires/then"),
        ({"quorm": 2}, 400, "/quorm"),
    ],
)
def test_post_interrupts_with_invalid_field_returns_json_pointer_of_the_field_and_stores_nothing(
    asker: Any, change: dict[str, Any], status: int, pointer: str
) -> None:
    response = asker.post("interrupts", body={**BODY, **change})
    assert response.status_code == status, response.json()
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]
    assert not Run.objects.exists()


def test_post_interrupts_with_too_large_or_deep_payload_returns_413(asker: Any) -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    for payload in ("x" * 2_000_000, deep):
        response = asker.post("interrupts", body={"payload": payload})
        assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert not Run.objects.exists()


@pytest.mark.promise("P18")
def test_post_interrupts_without_permission_returns_403(as_role: Any) -> None:
    for role in ("starter", "lead", "operator"):
        assert as_role(role).post("interrupts", body=BODY).status_code == 403
    assert not Run.objects.exists()
