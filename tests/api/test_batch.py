"""Batch starts: independent runs, and one result per run in the order of the request."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from hitl_django import services
from hitl_django.models import Run

pytestmark = pytest.mark.django_db


def post(client: Any, *items: dict[str, Any], **headers: str) -> Any:
    body = {"runs": [{"graph": "invoice", "input": {"amount": 12}, **item} for item in items]}
    return client.post("runs-batch", body=body, headers=headers)


def statuses(response: Any) -> list[int]:
    assert response.status_code == 200, response.content
    return [result["status"] for result in response.json()["results"]]


@pytest.mark.usefixtures("invoice")
def test_batch_start_returns_results_in_order_and_continues_after_failed_items(api: Any) -> None:
    services.start("invoice", {"amount": 1}, key="used")
    response = post(
        api,
        {"key": "a", "metadata": {"channel": "mail"}},
        {"graph": "no such"},
        {"key": "used"},
        {"key": "a"},
        {"input": None},
        {"subject": {"type": "no.such", "id": "1"}},
        {},
    )
    assert statuses(response) == [202, 404, 422, 200, 422, 422, 202]
    results = response.json()["results"]
    codes = [result["problem"] and result["problem"]["code"] for result in results]
    assert (codes[0], codes[2], codes[3]) == (None, "idempotency_key_reused", None)
    assert all(codes[index] for index in (1, 4, 5))
    assert [result["repeated"] for result in results] == [index == 3 for index in range(7)]
    assert results[3]["run"] == results[0]["run"]
    assert [result["run"] is None for result in results] == [bool(code) for code in codes]
    assert Run.objects.count() == 3


@pytest.mark.promise("P2")
@pytest.mark.usefixtures("invoice")
def test_batch_start_repeated_with_its_idempotency_key_starts_only_missing_runs(api: Any) -> None:
    once = {"Idempotency-Key": "friday"}
    first = post(api, {}, {"key": "mine"}, **once)
    again = post(api, {}, {"key": "mine"}, {}, **once)
    assert (statuses(first), statuses(again)) == ([202, 202], [200, 200, 202])
    assert [result["repeated"] for result in again.json()["results"]] == [True, True, False]
    assert sorted(Run.objects.values_list("key", flat=True)) == ["friday:0", "friday:2", "mine"]
    other = post(api, {"input": {"amount": 13}}, **once)
    assert statuses(other) == [422]
    assert Run.objects.count() == 3


@pytest.mark.usefixtures("invoice")
def test_batch_start_with_one_invalid_item_returns_400_and_starts_no_run(api: Any) -> None:
    refused = post(api, {}, {"no_such_field": 1})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/runs/1/no_such_field"
    for count in (0, 101):
        assert post(api, *[{}] * count).status_code == 400
    assert not Run.objects.exists()


@pytest.mark.promise("P18")
@pytest.mark.usefixtures("invoice")
def test_batch_start_without_start_permission_returns_403_per_item(as_role: Any) -> None:
    assert statuses(post(as_role("viewer"), {}, {})) == [403, 403]
    assert not Run.objects.exists()
    assert statuses(post(as_role("starter"), {}, {})) == [202, 202]


@pytest.mark.usefixtures("invoice")
def test_batch_start_counts_each_item_toward_throttle_start(api: Any, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "THROTTLE_START": "3/min"}
    assert post(api, {}, {}).status_code == 200
    refused = post(api, {}, {})
    assert (refused.status_code, refused.json()["code"]) == (429, "throttled")
    assert Run.objects.count() == 2


@pytest.mark.promise("P3")
@pytest.mark.usefixtures("invoice")
def test_batch_start_error_with_atomic_requests_preserves_runs_started_before_the_error(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    start = services.start

    def broken(graph: str, *args: Any, **options: Any) -> Any:
        if options.get("key") == "broken":
            raise RuntimeError("a bug")
        return start(graph, *args, **options)

    monkeypatch.setattr(services, "start", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        post(api, {"key": "whole"}, {"key": "broken"})
    assert Run.objects.get().key == "whole"
