"""Crons of LangGraph's client, which are schedules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db.models.functions import Now
from django.test import RequestFactory
from langgraph_sdk.errors import APIStatusError, ConflictError, NotFoundError, PermissionDeniedError

from hitl_django.contrib.langgraph_api import urls
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.start_due import start_due

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = {"log": ["hello"]}
NINE = "0 9 * * *"


def come_due(cron: Any) -> None:
    """Start the run of a cron."""
    Schedule.objects.filter(pk=cron["cron_id"]).update(next_at=Now() - timedelta(seconds=1))
    start_due()


def test_langgraph_cron_starts_runs_on_new_threads_in_the_name_of_its_user(
    client: Any, admin: Any
) -> None:
    end = datetime(2035, 1, 1, tzinfo=UTC)
    cron = client.crons.create(
        "chat",
        schedule=NINE,
        input={**HELLO, "tools": []},
        metadata={"team": "north"},
        config={"configurable": {"tone": "dry"}},
        end_time=end,
    )
    assert (cron["schedule"], cron["timezone"], cron["enabled"]) == (NINE, "UTC", True)
    assert datetime.fromisoformat(cron["next_run_date"]).hour == 9
    assert datetime.fromisoformat(cron["end_time"]) == end
    assert (cron["user_id"], cron["thread_id"]) == (str(admin.pk), None)
    assert cron["payload"]["input"] == HELLO
    come_due(cron)
    come_due(cron)
    threads = client.threads.search(metadata={"team": "north"})
    assert len(threads) == 2
    [run] = client.runs.list(threads[0]["thread_id"])
    assert {"team": "north", "schedule": cron["cron_id"]}.items() <= run["metadata"].items()
    row = Schedule.objects.get()
    assert (row.owner, row.configurable) == (admin, {"tone": "dry"})


def test_langgraph_cron_for_thread_skips_due_time_of_busy_thread_unless_strategy_is_enqueue(
    client: Any,
) -> None:
    thread = client.threads.create()["thread_id"]
    usual = client.crons.create_for_thread(thread, "chat", schedule=NINE, input=HELLO)
    waiting = client.crons.create_for_thread(
        thread, "chat", schedule=NINE, input=HELLO, multitask_strategy="enqueue"
    )
    assert (usual["thread_id"], usual["on_run_completed"]) == (thread, None)
    statuses = []
    for cron in (usual, usual, waiting):
        come_due(cron)
        statuses.append([run["status"] for run in client.runs.list(thread)])
    assert statuses == [["interrupted"], ["interrupted"], ["pending", "interrupted"]]


def test_langgraph_crons_are_found_counted_changed_and_deleted(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    first = client.crons.create("plain", schedule=NINE, metadata={"a": 1, "b": 2})
    other = client.crons.create_for_thread(thread, "chat", schedule="0 8 * * *", enabled=False)

    def find(**by: Any) -> list[str]:
        return [cron["cron_id"] for cron in client.crons.search(**by)]

    ids = [first["cron_id"], other["cron_id"]]
    assert find() == ids[::-1]
    assert find(limit=1) == find(sort_by="next_run_date", sort_order="asc", limit=1) == ids[1:]
    assert find(assistant_id="plain") == find(metadata={"a": 1}) == find(enabled=True) == ids[:1]
    assert find(assistant_id=other["assistant_id"]) == find(thread_id=thread) == ids[1:]
    assert find(assistant_id="unknown") == find(metadata={"a": 2}) == []
    assert client.crons.search(select=["schedule"], offset=1) == [{"schedule": NINE}]
    assert client.crons.count() == 2
    assert client.crons.count(thread_id=thread) == 1

    end = datetime.now(UTC) + timedelta(days=3)
    changed = client.crons.update(ids[0], schedule="0 10 * * *", enabled=False, end_time=end)
    assert (changed["schedule"], changed["enabled"]) == ("0 10 * * *", False)
    assert changed["updated_at"] > changed["created_at"]
    assert client.crons.update(ids[0], enabled=True)["end_time"] == changed["end_time"]
    assert client.crons.update(ids[0], end_time=None)["end_time"] is None
    client.crons.delete(ids[0])
    assert find() == ids[1:]
    with pytest.raises(NotFoundError):
        client.crons.update(ids[0], enabled=True)


@pytest.mark.parametrize(
    ("change", "status", "pointer"),
    [
        ({"schedule": "61 9 * * *"}, 422, "/schedule"),
        ({"schedule": "@daily"}, 422, "/schedule"),
        ({"schedule": "x" * 5000}, 400, "/schedule"),
        ({"timezone": "Mars/Base"}, 422, "/timezone"),
        ({"end_time": "2020-01-01T00:00:00Z"}, 422, "/end_time"),
        ({"end_time": "2035-01-01T00:00:00"}, 400, "/end_time"),
        ({"input": {"log": 7}}, 422, "/input/log"),
        ({"metadata": 7}, 400, "/metadata"),
        ({"config": {"configurable": {"a": 1}, "tags": ["b"]}}, 501, None),
        ({"interrupt_before": ["ask"]}, 501, None),
        ({"stream_mode": "values"}, 501, None),
        ({"webhook": "https://shop.example"}, 501, None),
        ({"on_run_completed": "delete"}, 400, "/on_run_completed"),
    ],
)
def test_langgraph_cron_with_invalid_field_returns_error_with_pointer_and_is_not_stored(
    client: Any, change: dict[str, Any], status: int, pointer: str | None
) -> None:
    cron = client.crons.create("chat", schedule=NINE)
    before = Schedule.objects.values().get()
    body = {"assistant_id": "chat", "schedule": NINE, "input": HELLO, **change}
    http = client.http.client
    for response in (
        http.post("runs/crons", json=body),
        http.patch(f"runs/crons/{cron['cron_id']}", json=change),
    ):
        problem = response.json()
        assert response.status_code == status
        assert [each["pointer"] for each in problem.get("errors", [])] == (
            [] if pointer is None else [pointer]
        )
    assert Schedule.objects.values().get() == before


def test_langgraph_cron_of_unknown_assistant_or_thread_is_refused(client: Any) -> None:
    with pytest.raises(NotFoundError, match="No graph"):
        client.crons.create("unknown", schedule=NINE)
    with pytest.raises(NotFoundError):
        client.crons.create_for_thread("unknown", "chat", schedule=NINE)
    thread = client.threads.create(graph_id="plain")["thread_id"]
    with pytest.raises(APIStatusError) as refused:
        client.crons.create_for_thread(thread, "chat", schedule=NINE)
    assert refused.value.response.json()["errors"][0]["pointer"] == "/assistant_id"
    for strategy in ("interrupt", "rollback"):
        with pytest.raises(APIStatusError) as refused:
            client.crons.create_for_thread(
                thread, "plain", schedule=NINE, multitask_strategy=strategy
            )
        [fault] = refused.value.response.json()["errors"]
        assert fault["pointer"] == "/multitask_strategy"
    assert not Schedule.objects.exists()


def test_langgraph_crons_require_the_permissions_of_schedules(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    cron = client.crons.create("plain", schedule=NINE)
    starter = client_of(make_user("nina", "start_run", "view_run"))
    with pytest.raises(PermissionDeniedError):
        starter.crons.create("plain", schedule=NINE)
    assert (starter.crons.search(), starter.crons.count()) == ([], 0)
    viewer = client_of(make_user("omar", "view_schedule"))
    assert [each["cron_id"] for each in viewer.crons.search()] == [cron["cron_id"]]
    for call in (viewer.crons.delete, lambda pk: viewer.crons.update(pk, enabled=False)):
        with pytest.raises(PermissionDeniedError):
            call(cron["cron_id"])
    manager = client_of(make_user("pia", "manage_schedules", "start_run"))
    assert manager.crons.create("plain", schedule=NINE)["enabled"] is True
    with pytest.raises(NotFoundError):
        manager.crons.delete(cron["cron_id"])


def test_langgraph_cron_defined_in_code_can_only_be_disabled(client: Any) -> None:
    cron = client.crons.create("plain", schedule=NINE)
    Schedule.objects.update(is_registered=True)
    assert client.crons.update(cron["cron_id"], enabled=False)["enabled"] is False
    with pytest.raises(ConflictError):
        client.crons.update(cron["cron_id"], schedule="0 8 * * *")


def test_langgraph_crons_without_schedules_app_are_refused_naming_the_app(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "is_installed", lambda name: False)
    [pattern] = urls.list_cron_urls()
    for path in ("runs/crons", "runs/crons/search", "threads/a/runs/crons"):
        found: Any = pattern.resolve(path)
        request: Any = RequestFactory().post(f"/agent/{path}")
        request.user = admin
        request._dont_enforce_csrf_checks = True
        response = found.func(request, *found.args, **found.kwargs)
        assert response.status_code == 501
        assert "hitl_django.contrib.schedules" in response.data["detail"]
