"""Request ids in responses: the client's id or a new one."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from hitl_django.api.views.runs import RunList

GIVEN = "1f0b6f3c.edge-7:/+=@_x"


def test_response_request_id_is_the_header_of_the_request_or_a_new_uuid(api: Any) -> None:
    assert api.get("runs", headers={"X-Request-ID": GIVEN})["X-Request-ID"] == GIVEN
    made = [api.get("runs")["X-Request-ID"] for _ in range(2)]
    assert len({UUID(each) for each in made}) == 2


@pytest.mark.parametrize("wrong", ["", " ", "a b", "x" * 129, 'a"b', "ä", "<b>", "a\tb"])
def test_response_request_id_replaces_invalid_header_with_a_uuid(api: Any, wrong: str) -> None:
    assert UUID(api.get("runs", HTTP_X_REQUEST_ID=wrong)["X-Request-ID"])


@pytest.mark.parametrize(
    ("name", "arguments", "status"), [("run", [uuid4()], 404), ("schema", [], 405)]
)
def test_problem_contains_the_request_id_of_its_response_header(
    api: Any, name: str, arguments: Any, status: int
) -> None:
    method = "GET" if status == 404 else "DELETE"
    refused = api.call(method, name, *arguments, headers={"X-Request-ID": GIVEN})
    assert refused.status_code == status
    assert refused["X-Request-ID"] == refused.json()["request_id"] == GIVEN


def test_unknown_url_and_unauthenticated_responses_have_a_request_id(
    api: Any, as_role: Any
) -> None:
    nothing = api.client.get("/hitl/api/v1/nothing/", headers={"X-Request-ID": GIVEN})
    assert nothing.json()["request_id"] == nothing["X-Request-ID"] == GIVEN
    stranger = as_role("anonymous").get("runs")
    assert stranger["X-Request-ID"] == stranger.json()["request_id"]


def test_bulk_decision_item_problem_contains_the_request_id(api: Any) -> None:
    body = {"decisions": [{"interrupt": str(uuid4()), "type": "approve"}]}
    answer = api.post("decisions-bulk", body=body, headers={"X-Request-ID": GIVEN})
    assert answer.json()["results"][0]["problem"]["request_id"] == GIVEN


def test_outage_log_entry_contains_the_request_id(
    api: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: Any) -> Any:
        raise OperationalError("database is locked")

    monkeypatch.setattr(RunList, "get_queryset", away)
    with caplog.at_level(logging.ERROR, "hitl_django"):
        refused = api.get("runs", headers={"X-Request-ID": GIVEN})
    assert (refused.status_code, refused.json()["request_id"]) == (503, GIVEN)
    assert GIVEN in caplog.text
