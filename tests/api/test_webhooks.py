"""Webhooks over the API: create, view, test and redeliver."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint

URL = "https://crm.example/hooks"


def test_webhook_secret_is_returned_only_by_creation_and_rotation(api: Any) -> None:
    response = api.post("webhooks", body={"url": URL, "events": ["run.failed"]})
    made = response.json()
    assert response.status_code == 201
    assert (response["Location"], response["Cache-Control"]) == (made["self"], "no-store")
    row = WebhookEndpoint.objects.get()
    assert made["secret"] == row.secret
    assert (row.url, row.events, row.graphs, row.with_interrupt) == (URL, ["run.failed"], [], False)

    shown = [api.get("webhooks"), api.get("webhook", row.pk), api.get("deliveries", row.pk)]
    shown += [api.call("PATCH", "webhook", row.pk, body={"active": False})]
    for answer in shown:
        assert answer.status_code == 200
        assert row.secret not in answer.content.decode()

    rotated = api.post("webhook-secret", row.pk, body={}).json()["secret"]
    row.refresh_from_db()
    assert (row.secret, row.old_secret) == (rotated, made["secret"])


@pytest.mark.parametrize(
    ("body", "status", "pointers"),
    [
        ({}, 400, ["/url"]),
        ({"url": URL, "secret": "mine"}, 400, ["/secret"]),
        ({"url": URL, "events": "run.failed"}, 400, ["/events"]),
        ({"url": URL, "events": ["webhook.test"]}, 400, ["/events"]),
        ({"url": URL, "active": "yes"}, 400, ["/active"]),
        ({"url": "http://crm.example/"}, 422, ["/url"]),
        ({"url": "https://127.0.0.1/"}, 422, ["/url"]),
        ({"url": "ftp://x", "graphs": ["unheard-of"]}, 422, ["/graphs", "/url"]),
    ],
)
def test_webhook_creation_with_invalid_field_returns_error_with_pointer(
    api: Any, body: Any, status: int, pointers: list[str]
) -> None:
    response = api.post("webhooks", body=body)
    assert response.status_code == status
    found = [error["pointer"].partition("/0")[0] for error in response.json()["errors"]]
    assert sorted(found) == pointers
    assert not WebhookEndpoint.objects.exists()


def test_webhook_patch_changes_given_fields_only_and_activation_resets_failures(
    api: Any, invoice: str
) -> None:
    hook = webhook_services.create_webhook(URL, events=["run.failed"], description="CRM")
    WebhookEndpoint.objects.update(failures=7, stopped="The receiver returned 410 Gone.")
    body = {"graphs": [invoice], "active": True}
    changed = api.call("PATCH", "webhook", hook.id, body=body).json()
    assert changed["graphs"] == [invoice]
    assert (changed["events"], changed["description"]) == (["run.failed"], "CRM")
    assert (changed["failures"], changed["stopped"]) == (0, "")


def test_webhook_test_event_is_listed_and_redelivered_over_the_api(api: Any) -> None:
    hook = webhook_services.create_webhook(URL)
    tried = api.post("webhook-test", hook.id, body={})
    assert (tried.status_code, tried["Location"]) == (202, tried.json()["url"])
    first = Delivery.objects.get()
    Delivery.objects.update(
        state="dead", attempts=12, fault="The receiver returned 500.", status=500
    )
    api.post("webhook-test", hook.id, body={})

    page = api.get("deliveries", hook.id, query="state=dead").json()
    assert [row["id"] for row in page["results"]] == [str(first.pk)]
    assert page["results"][0]["fault"] == "The receiver returned 500."
    everything = api.get("deliveries", hook.id, query="page_size=1").json()
    assert everything["next"]
    assert len(everything["results"]) == 1

    again = api.post("redeliver", first.pk, body={}).json()
    assert (again["id"], again["state"], again["attempts"]) == (str(first.pk), "pending", 0)


def test_webhook_deletion_deletes_its_deliveries(api: Any) -> None:
    hook = webhook_services.create_webhook(URL)
    webhook_services.send_test_event(hook.id)
    assert api.call("DELETE", "webhook", hook.id).status_code == 204
    assert not WebhookEndpoint.objects.exists()
    assert not Delivery.objects.exists()
    assert api.call("DELETE", "webhook", hook.id).status_code == 404


@pytest.mark.promise("P18")
def test_webhook_changes_and_test_event_by_user_with_only_view_permission_return_403(
    make_user: Any,
) -> None:
    from .conftest import API

    hook = webhook_services.create_webhook(URL)
    message = webhook_services.send_test_event(hook.id)
    looker = API(make_user("view_webhookendpoint"))
    assert looker.get("webhook", hook.id).status_code == 200
    for name, what in (
        ("webhook-secret", hook.id),
        ("webhook-test", hook.id),
        ("redeliver", message.id),
    ):
        assert looker.post(name, what, body={}).status_code == 403
    for method in ("PATCH", "DELETE"):
        assert looker.call(method, "webhook", hook.id, body={}).status_code == 403
    assert looker.post("webhooks", body={"url": URL}).status_code == 403
    assert Delivery.objects.get().pk == message.id
