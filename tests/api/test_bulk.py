"""Bulk decisions over HTTP: independent decisions, and one result per decision in order."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection

from hitl_django import services
from hitl_django.models import Decision, Interrupt

pytestmark = pytest.mark.django_db
ABSENT = "11111111-2222-4333-8444-555555555555"


def post(api: Any, *items: dict[str, Any], **headers: str) -> Any:
    body = {"decisions": [{"type": "approve", **item} for item in items]}
    return api.post("decisions-bulk", body=body, headers=headers)


def statuses(response: Any) -> list[int]:
    assert response.status_code == 200, response.content
    return [result["status"] for result in response.json()["results"]]


def test_bulk_decision_returns_results_in_order_and_continues_after_failed_items(
    api: Any, asked: Any, make_interrupt: Any
) -> None:
    decided = make_interrupt(status=Interrupt.Status.CANCELLED)
    asks = asked()
    free = make_interrupt()
    response = post(
        api,
        {"interrupt": str(decided.pk)},
        {"interrupt": str(asks.pk), "type": "edit", "value": {"amount": "x"}},
        {"interrupt": ABSENT},
        {"interrupt": str(free.pk), "reason": "Fine."},
        {"interrupt": str(asks.pk), "type": "edit", "value": {"amount": 5}},
        {"interrupt": str(asks.pk)},
    )
    assert statuses(response) == [409, 422, 404, 202, 202, 409]
    results = response.json()["results"]
    assert [result["interrupt"] for result in results] == [
        str(decided.pk), str(asks.pk), ABSENT, str(free.pk), str(asks.pk), str(asks.pk),
    ]  # fmt: skip
    codes = [result["problem"] and result["problem"]["code"] for result in results]
    assert codes == [
        "already_decided",
        "invalid_answer",
        "not_found",
        None,
        None,
        "already_decided",
    ]
    assert results[1]["problem"]["errors"][0]["pointer"] == "/decisions/1/value/amount"
    assert results[3]["decision"]["reason"] == "Fine."
    assert results[5]["problem"]["decision"] == results[4]["decision"]
    assert Decision.objects.count() == 2


@pytest.mark.promise("P2")
def test_bulk_decision_repeated_with_its_idempotency_key_returns_the_first_results(
    api: Any, make_interrupt: Any
) -> None:
    items = [{"interrupt": str(make_interrupt().pk)} for _ in range(3)]
    first = post(api, *items, **{"Idempotency-Key": "bulk-1"})
    again = post(api, *items, **{"Idempotency-Key": "bulk-1"})
    assert statuses(first) == statuses(again) == [202, 202, 202]
    for before, after in zip(first.json()["results"], again.json()["results"], strict=True):
        assert (before["repeated"], after["repeated"]) == (False, True)
        assert before["decision"] == after["decision"]
    assert Decision.objects.count() == 3


def test_bulk_decision_with_stale_or_invalid_etag_returns_412_for_the_item(
    api: Any, make_interrupt: Any
) -> None:
    seen, changed = make_interrupt(), make_interrupt()
    etag = api.get("interrupt", seen.pk)["ETag"]
    response = post(
        api,
        {"interrupt": str(seen.pk), "etag": etag},
        {"interrupt": str(changed.pk), "etag": etag.strip('"').replace("d", "e")},
        {"interrupt": str(changed.pk), "etag": "nonsense"},
    )
    assert statuses(response) == [202, 412, 412]


@pytest.mark.promise("P18")
def test_bulk_decision_returns_404_403_or_202_per_item_by_permission(
    as_role: Any, make_interrupt: Any
) -> None:
    interrupt = str(make_interrupt().pk)
    for role, status in {"nobody": 404, "viewer": 403, "reviewer": 202}.items():
        assert statuses(post(as_role(role), {"interrupt": interrupt})) == [status]


@pytest.mark.promise("P21")
@pytest.mark.parametrize(
    ("decisions", "pointer"),
    [
        ([], "/decisions"),
        ({}, "/decisions"),
        (None, "/decisions"),
        ([{"interrupt": ABSENT, "type": "approve"}] * 101, "/decisions"),
        ([{"interrupt": ABSENT}], "/decisions/0/type"),
        ([{"interrupt": ABSENT, "type": "approve", "resume": 1}], "/decisions/0/resume"),
        ([{"interrupt": "x", "type": "approve"}], "/decisions/0/interrupt"),
        ([{"interrupt": ABSENT.upper(), "type": "approve", "by": 1}], "/decisions/0/by"),
        ([{"interrupt": 5, "type": "approve"}], "/decisions/0/interrupt"),
        ([7], "/decisions/0"),
    ],
)
def test_bulk_decision_with_invalid_body_returns_400_with_pointer_and_saves_no_decision(
    api: Any, make_interrupt: Any, decisions: Any, pointer: str
) -> None:
    if isinstance(decisions, list) and len(decisions) == 1:  # together with a valid one
        decisions = [*decisions, {"interrupt": str(make_interrupt().pk), "type": "approve"}]
    body = {"decisions": decisions}
    response = api.post("decisions-bulk", body=body)
    assert response.status_code == 400, response.content
    assert pointer in [fault["pointer"] for fault in response.json()["errors"]]
    assert not Decision.objects.exists()


def test_bulk_decision_accepts_one_hundred_items(api: Any) -> None:
    items = [{"interrupt": str(uuid.uuid4())} for _ in range(100)]
    assert statuses(post(api, *items)) == [404] * 100


def test_bulk_decision_above_throttle_decide_returns_429(api: Any, settings: Any) -> None:
    settings.HITL = {"THROTTLE_DECIDE": "1/day"}
    assert [post(api, {"interrupt": ABSENT}).status_code for _ in range(2)] == [200, 429]


@pytest.mark.promise("P3")
def test_bulk_decision_error_with_atomic_requests_preserves_earlier_decisions(
    api: Any, make_interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction would lock many threads in an arbitrary order."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    first, second = make_interrupt(), make_interrupt()
    decide = services.decide

    def broken(interrupt: Any, *args: Any, **options: Any) -> Any:
        if str(interrupt) == str(second.pk):
            raise RuntimeError("a bug")
        return decide(interrupt, *args, **options)

    monkeypatch.setattr(services, "decide", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        post(api, {"interrupt": str(first.pk)}, {"interrupt": str(second.pk)})
    assert Decision.objects.get().interrupt == first
