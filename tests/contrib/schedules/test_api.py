"""Schedules over the API: create, view, pause, change and delete."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django import services
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule

BODY = {"graph": "invoice", "expression": "0 7 * * *", "input": {"amount": 12}}


@pytest.fixture(autouse=True)
def registered(invoice: Any) -> None:
    """Register the graph of the schedules."""


def test_schedule_created_over_the_api_belongs_to_the_user(api: Any) -> None:
    response = api.post("schedules", body={**BODY, "timezone": "Asia/Kolkata"})
    made = response.json()
    assert (response.status_code, response["Location"]) == (201, made["url"])
    row = Schedule.objects.get()
    assert row.owner is not None
    assert made["owner"] == row.owner.get_username()
    assert (made["registered"], made["active"], made["overlap"]) == (False, True, "skip")
    assert made["next_at"].endswith("T01:30:00Z")
    assert api.get("schedules").json()["results"] == [made]
    assert api.get("schedule", row.pk).json() == made


@pytest.mark.parametrize(
    ("change", "status", "pointer", "words"),
    [
        ({"expression": "0 25 * * *"}, 422, "/expression", "bad hour"),
        ({"expression": "@daily"}, 422, "/expression", "five fields"),
        ({"expression": 7}, 400, "/expression", ""),
        ({"timezone": "Mars/Base"}, 422, "/timezone", "time zone"),
        ({"overlap": "queue"}, 400, "/overlap", "skip, allow"),
        ({"next_at": "2030-01-01T00:00:00Z"}, 400, "/next_at", ""),
        ({"input": {"amount": []}}, 422, "/input/amount", ""),
        ({"metadata": 7}, 400, "/metadata", ""),
        ({"ends_at": "2020-01-01T00:00:00Z"}, 422, "/ends_at", "past"),
    ],
)
def test_schedule_with_invalid_field_over_the_api_returns_error_with_pointer(
    api: Any, change: dict[str, Any], status: int, pointer: str, words: str
) -> None:
    response = api.post("schedules", body={**BODY, **change})
    assert response.status_code == status
    [fault] = response.json()["errors"]
    assert fault["pointer"] == pointer
    assert words in fault["detail"]
    made = create_schedule("invoice", "0 7 * * *", {"amount": 12})
    assert api.call("PATCH", "schedule", made.id, body=change).status_code == status


def test_schedule_with_thread_metadata_and_end_over_the_api_returns_these_values(api: Any) -> None:
    thread = services.create_thread(graph="invoice").thread_id
    values = {"thread_id": thread, "metadata": {"a": 1}, "ends_at": "2035-01-01T00:00:00Z"}
    made = api.post("schedules", body={**BODY, **values}).json()
    assert values.items() <= made.items()
    changed = api.call("PATCH", "schedule", made["id"], body={"ends_at": None}).json()
    assert changed["ends_at"] is None
    assert changed["updated_at"] > made["updated_at"]
    assert api.call("PATCH", "schedule", made["id"], body={"thread_id": "a"}).status_code == 400
    assert api.post("schedules", body={**BODY, "thread_id": "unknown"}).status_code == 404


def test_schedule_creation_without_required_fields_reports_each_field(api: Any) -> None:
    response = api.post("schedules", body={})
    assert [fault["pointer"] for fault in response.json()["errors"]] == [
        "/expression", "/input", "/graph"
    ]  # fmt: skip
    assert api.post("schedules", body={**BODY, "input": None}).status_code == 422


def test_schedule_is_paused_resumed_changed_and_deleted_over_the_api(api: Any) -> None:
    pk = api.post("schedules", body=BODY).json()["id"]
    assert api.call("PATCH", "schedule", pk, body={"active": False}).json()["active"] is False
    assert api.call("PATCH", "schedule", pk, body={"active": True}).json()["active"] is True
    changed = api.call("PATCH", "schedule", pk, body={"expression": "0 8 * * *"}).json()
    assert changed["expression"] == "0 8 * * *"
    assert api.call("DELETE", "schedule", pk).status_code == 204
    assert api.get("schedule", pk).status_code == 404


def test_code_defined_schedule_can_be_paused_but_not_changed_over_the_api(api: Any) -> None:
    made = create_schedule("invoice", "0 7 * * *", {"amount": 12})
    Schedule.objects.update(is_registered=True)
    refused = api.call("PATCH", "schedule", made.id, body={"expression": "0 8 * * *"})
    assert (refused.status_code, refused.json()["code"]) == (409, "code_defined_schedule")
    assert api.call("PATCH", "schedule", made.id, body={"active": False}).status_code == 200
