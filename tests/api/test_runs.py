"""Runs over HTTP: start with an idempotency key, detail, cancel and retry."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission

from hitl_django.models import AuditEntry, Run, Thread
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db

BODY = {"graph": "invoice", "input": {"amount": 12}}


def test_graph_list_contains_version_title_url_and_input_schema(api: Any, invoice: str) -> None:
    listed = {graph["name"]: graph for graph in api.get("graphs").json()["results"]}
    graph = listed[invoice]
    assert graph.items() <= api.get("graph", invoice).json().items()
    assert (graph["version"], graph["title"]) == ("3", "Pay an invoice")
    assert graph["url"] == "http://testserver/hitl/api/v1/graphs/invoice/"
    assert graph["input_schema"]["properties"]["amount"]["type"] == "integer"


def test_run_creation_returns_202_with_location_and_queued_run(api: Any, invoice: str) -> None:
    body = {**BODY, "thread_id": "invoice-7", "metadata": {"channel": "mail"}}
    response = api.post("runs", body=body)
    assert response.status_code == 202, response.content
    run = Run.objects.get()
    assert response.json() == {
        "id": str(run.pk),
        "url": f"http://testserver/hitl/api/v1/runs/{run.pk}/",
        "graph": "invoice",
        "thread_id": "invoice-7",
        "state": "queued",
        "step": response.json()["step"],
    }
    assert response["Location"] == response.json()["url"]
    assert Thread.objects.get().metadata == {"channel": "mail"}
    assert api.client.get(response["Location"]).json()["state"] == "queued"


def test_run_creation_with_visible_subject_stores_the_subject_on_the_thread(
    api: Any, invoice: str, make_user: Any
) -> None:
    customer = {"type": "auth.group", "id": str(Group.objects.create(name="Dana's shop").pk)}
    clerk = make_user("start_run", "view_thread")
    clerk.user_permissions.add(Permission.objects.get(codename="view_group"))
    api.client.force_login(clerk)
    started = api.post("runs", body={**BODY, "subject": customer})
    assert started.status_code == 202, started.content
    thread_id = started.json()["thread_id"]
    assert api.get("thread", thread_id).json()["subject"] == customer
    assert api.post("runs", body={**BODY, "thread_id": thread_id}).status_code == 409


@pytest.mark.promise("P18")
@pytest.mark.parametrize("named", [
    {"type": "auth.permission", "id": "1"},  # the run exists, but is hidden from this user
    {"type": "auth.group", "id": "0"},
    {"type": "auth.group", "id": "9" * 255},
    {"type": "auth.group", "id": "one"},
    {"type": "auth.unheard", "id": "1"},
    {"type": "group", "id": "1"},
    {"type": "auth.group.name", "id": "1"},
])  # fmt: skip
def test_run_creation_with_hidden_or_unknown_subject_returns_422_with_pointer_to_subject(
    api: Any, invoice: str, make_user: Any, named: Any
) -> None:
    clerk = make_user("start_run")
    clerk.user_permissions.add(Permission.objects.get(codename="view_group"))
    api.client.force_login(clerk)
    refused = api.post("runs", body={**BODY, "subject": named})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/subject"]
    assert not Thread.objects.exists()


@pytest.mark.parametrize(
    ("named", "pointer"),
    [
        ("auth.group:1", "/subject"),
        ({"type": "auth.group"}, "/subject/id"),
        ({"type": "auth.group", "id": 1}, "/subject/id"),
        ({"type": "auth.group", "id": "1", "name": "x"}, "/subject/name"),
    ],
)
def test_run_creation_with_malformed_subject_returns_400_with_pointer(
    api: Any, invoice: str, named: Any, pointer: str
) -> None:
    refused = api.post("runs", body={**BODY, "subject": named})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [pointer]


@pytest.mark.promise("P2")
def test_run_creation_repeated_with_its_key_returns_the_run_or_422_if_the_input_changed(
    api: Any, invoice: str
) -> None:
    first = api.post("runs", body={**BODY, "key": "order-7"})
    again = api.post("runs", body={**BODY, "key": "order-7"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json()
    assert again["Location"] == first["Location"]
    assert Run.objects.count() == 1
    other = {**BODY, "input": {"amount": 13}, "key": "order-7"}
    response = api.post("runs", body=other)
    assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
    assert Run.objects.count() == 1


@pytest.mark.promise("P2")
def test_run_creation_repeated_with_its_key_and_changed_subject_or_thread_returns_422(
    api: Any, invoice: str
) -> None:
    groups = [Group.objects.create(name=name) for name in ("Day shift", "Night shift")]
    subjects = [{"type": "auth.group", "id": str(group.pk)} for group in groups]
    body = {**BODY, "key": "order-7", "subject": subjects[0], "thread_id": "a"}
    assert api.post("runs", body=body).status_code == 202
    assert api.post("runs", body=body).status_code == 200
    for other in ({"subject": subjects[1]}, {"thread_id": "b"}):
        response = api.post("runs", body={**body, **other})
        assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
    assert Run.objects.count() == 1


@pytest.mark.promise("P18")
def test_run_creation_with_key_of_hidden_run_returns_422_without_its_id(
    api: Any, as_role: Any, invoice: str
) -> None:
    body = {**BODY, "key": "order-7"}
    starter = as_role("starter")
    assert starter.post("runs", body=body).status_code == 202
    assert starter.post("runs", body=body).status_code == 200
    assert api.post("runs", body=body).status_code == 200
    refused = as_role("starter").post("runs", body=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert str(Run.objects.get().pk) not in refused.content.decode()


@pytest.mark.parametrize(
    ("input_value", "pointer"),
    [
        ({"amount": "twelve"}, "/input/amount"),
        ({"amount": 1, "iban": "x"}, "/input/iban"),
        ([1], "/input"),
    ],
)
def test_run_creation_with_invalid_input_returns_422_with_pointer(
    api: Any, invoice: str, input_value: Any, pointer: str
) -> None:
    response = api.post("runs", body={"graph": invoice, "input": input_value})
    assert response.status_code == 422, response.content
    assert response.json()["code"] == "invalid_input"
    assert pointer in [fault["pointer"] for fault in response.json()["errors"]]
    assert not Thread.objects.exists()


@pytest.mark.parametrize("field", ["key", "thread_id"])
@pytest.mark.parametrize("name", ["a\nb", "\u202eevil", "\x1b[31m"])
def test_run_creation_with_control_characters_in_key_or_thread_id_returns_422(
    api: Any, invoice: str, field: str, name: str
) -> None:
    response = api.post("runs", body={**BODY, field: name})
    assert response.status_code == 422, response.content
    assert [fault["pointer"] for fault in response.json()["errors"]] == [f"/{field}"]
    assert not Thread.objects.exists()


def test_run_creation_on_thread_of_another_graph_returns_422_with_pointer_to_thread_id(
    api: Any, invoice: str, make_run: Any
) -> None:
    run = make_run(graph="letter", state=Run.State.SUCCEEDED)
    response = api.post("runs", body={**BODY, "thread_id": run.thread.thread_id})
    assert response.status_code == 422
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["/thread_id"]


@pytest.mark.promise("P18")
def test_run_creation_on_hidden_thread_returns_404(
    as_role: Any, invoice: str, make_run: Any
) -> None:
    run = make_run(state=Run.State.SUCCEEDED)
    body = {**BODY, "thread_id": run.thread.thread_id}
    assert as_role("starter").post("runs", body=body).status_code == 404
    assert Run.objects.count() == 1


@pytest.mark.promise("P18")
def test_run_creation_on_hidden_thread_of_own_run_returns_403_naming_the_permission(
    as_role: Any, invoice: str
) -> None:
    starter, body = as_role("starter"), {**BODY, "thread_id": "invoice-7"}
    assert starter.post("runs", body=body).status_code == 202
    response = starter.post("runs", body=body)
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert "'invoice-7' (view_thread)" in response.json()["detail"]
    assert AuditEntry.objects.get(verb="refuse").detail["type"] == "start"
    assert Run.objects.count() == 1


def test_run_creation_with_null_input_returns_422_with_code_empty_input(
    api: Any, invoice: str
) -> None:
    response = api.post("runs", body={"graph": invoice, "input": None})
    assert (response.status_code, response.json()["code"]) == (422, "empty_input")
    assert not Thread.objects.exists()


def test_run_creation_with_unknown_graph_returns_404_or_403_without_permission(
    api: Any, as_role: Any
) -> None:
    body = {"graph": "nothing", "input": {}}
    response = api.post("runs", body=body)
    assert (response.status_code, response.json()["code"]) == (404, "unknown_graph")
    assert as_role("viewer").post("runs", body=body).status_code == 403
    assert not Thread.objects.exists()


def test_run_creation_during_interrupt_returns_409_unless_on_pending_is_discard(
    api: Any, asked: Any
) -> None:
    interrupt = asked()
    body = {**BODY, "thread_id": interrupt.thread.thread_id}
    refused = api.post("runs", body=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "thread_waiting")
    assert len(refused.json()["pending"]) == 1
    accepted = api.post("runs", body={**body, "on_pending": "discard"})
    assert accepted.status_code == 202, accepted.content
    assert api.get("interrupt", interrupt.pk).json()["status"] == "superseded"


@pytest.mark.promise("P18")
def test_run_creation_discarding_an_interrupt_requires_cancel_permission(
    api: Any, make_user: Any, asked: Any
) -> None:
    interrupt = asked()
    starter = type(api)(make_user("start_run", "view_thread", "view_run", "view_interrupt"))
    body = {**BODY, "thread_id": interrupt.thread.thread_id}
    assert starter.post("runs", body=body).status_code == 409
    refused = starter.post("runs", body={**body, "on_pending": "discard"})
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    interrupt.refresh_from_db()
    assert (interrupt.status, Run.objects.get().state) == ("pending", "interrupted")
    entry = AuditEntry.objects.get(verb="refuse")
    assert (entry.subject, entry.detail["type"]) == (str(interrupt.run_id), "discard")
    new = {**BODY, "thread_id": "another", "on_pending": "discard"}
    assert starter.post("runs", body=new).status_code == 202  # there is no input to discard


def test_run_creation_with_on_pending_wait_queues_the_run_behind_the_active_run(
    api: Any, invoice: str
) -> None:
    body = {**BODY, "thread_id": "one", "on_pending": "wait"}
    first, second = (api.post("runs", body=body).json() for _ in range(2))
    assert [first["state"], second["state"]] == ["queued", "waiting"]
    assert [row["id"] for row in api.get("runs", query="state=waiting").json()["results"]] == [
        second["id"]
    ]
    # The response contains the state at the end of the run, without later changes.
    thread = api.get("thread", "one").json()
    assert (thread["state"], thread["run"]) == ("queued", first["id"])
    refused = api.post("runs", body={**BODY, "thread_id": "one"})
    assert (refused.status_code, refused.json()["run_state"]) == (409, "queued")
    assert api.post("run-cancel", second["id"], body={}).json()["state"] == "cancelled"
    runner.advance(first["id"])
    assert api.get("run", first["id"]).json()["state"] == "interrupted"


def test_run_creation_on_thread_with_active_run_returns_409(api: Any, invoice: str) -> None:
    body = {**BODY, "thread_id": "one"}
    assert api.post("runs", body=body).status_code == 202
    response = api.post("runs", body=body)
    assert (response.status_code, response.json()["code"]) == (409, "run_state")
    assert Run.objects.count() == 1


def test_run_cancel_withdraws_pending_interrupts_and_second_cancel_returns_409(
    api: Any, asked: Any
) -> None:
    interrupt = asked()
    response = api.post("run-cancel", interrupt.run_id, body={"reason": "Paid by hand."})
    assert response.status_code == 200
    assert response.json()["state"] == "cancelled"
    assert api.get("interrupt", interrupt.pk).json()["status"] == "cancelled"
    again = api.post("run-cancel", interrupt.run_id)
    assert (again.status_code, again.json()["code"]) == (409, "run_state")


def test_run_retry_queues_failed_run_and_second_retry_returns_409(api: Any, make_run: Any) -> None:
    run = make_run(state=Run.State.FAILED, error="No.")
    response = api.post("run-retry", run.pk)
    assert response.status_code == 202, response.content
    assert response.json()["state"] == "queued"
    assert response["Location"].endswith(f"/{run.pk}/")
    again = api.post("run-retry", run.pk)
    assert again.status_code == 409
    assert again.json()["run_state"] == "queued"
    assert set(again.json()["allowed"]) == {"failed", "parked"}


def test_run_retry_with_body_field_returns_400(api: Any, make_run: Any) -> None:
    run = make_run(state=Run.State.FAILED)
    response = api.post("run-retry", run.pk, body={"input": {}})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/input"
