"""Requests repeated with the same ``Idempotency-Key``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models.functions import Now

from hitl_django.api.urls import urlpatterns
from hitl_django.models import AuditEntry, Comment, IdempotencyRecord, Run
from hitl_django.services.idempotency import remove_old
from tests.permissions.conftest import everything_of_ours

from .addresses import arguments, bodies

__all__ = ["arguments", "bodies"]

pytestmark = pytest.mark.django_db

ONCE = {"HTTP_IDEMPOTENCY_KEY": "once"}
#: The URL that validates a decision without storing anything.
READS = "decision-validate"
#: URLs whose response or status shows that an earlier request had the same key.
WITH_OTHER_WORDS = ("interrupts", "runs", "runs-batch", "decisions-bulk")
KEPT_WITH_WHAT_IS_MADE = (*WITH_OTHER_WORDS, "decisions", "next")


def posted() -> dict[str, Any]:
    views = {str(pattern.name): pattern.callback for pattern in urlpatterns}
    classes = {name: getattr(view, "view_class", None) for name, view in views.items()}
    return {name: kind.post for name, kind in classes.items() if hasattr(kind, "post")}


KEYED = sorted(name for name, post in posted().items() if post.operation.keyed)


def test_every_changing_post_endpoint_accepts_an_idempotency_key() -> None:
    takes = {
        name
        for name, post in posted().items()
        if "Idempotency-Key" in {header.name for header in post.operation.headers}
    }
    assert takes == posted().keys() - {READS}
    assert takes == {*KEYED, *KEPT_WITH_WHAT_IS_MADE}


@pytest.mark.parametrize("name", sorted(posted().keys() - {READS, *WITH_OTHER_WORDS}))
def test_post_repeated_with_its_idempotency_key_is_executed_once(
    name: str, api: Any, arguments: dict[str, Any], bodies: dict[str, Any]
) -> None:
    first = api.post(name, *arguments[name], body=bodies.get(name), **ONCE)
    assert first.status_code < 300, first.content
    assert "Idempotent-Replayed" not in first
    before, entries = everything_of_ours(), AuditEntry.objects.count()
    again = api.post(name, *arguments[name], body=bodies.get(name), **ONCE)
    assert (again.status_code, again["Idempotent-Replayed"]) == (first.status_code, "true")
    if name != "claim":  # which is renewed
        assert everything_of_ours() == before
    assert AuditEntry.objects.count() == entries
    if first.content:
        shown, expected = again.json(), first.json()
        once = {"until", "secret", "url"} if name in ("claim", "links", "webhooks") else {"secret"}
        assert {k: v for k, v in shown.items() if k not in once} == {
            k: v for k, v in expected.items() if k not in once
        }
        assert shown.get("secret", "") == ""


def test_link_creation_repeated_with_its_idempotency_key_returns_no_url(
    asked: Any, api: Any
) -> None:
    interrupt = asked()
    first, again = (
        api.post("links", interrupt.pk, body={"name": "Dana K."}, **ONCE).json() for _ in range(2)
    )
    assert first["url"].startswith("http")
    assert (again["id"], again["url"]) == (first["id"], "")


@pytest.mark.parametrize("name", KEYED)
def test_idempotency_key_reused_for_a_different_request_returns_422_and_changes_no_row(
    name: str, api: Any, arguments: dict[str, Any], bodies: dict[str, Any]
) -> None:
    interrupt = arguments["comments"][0]
    api.post("comments", interrupt, body={"text": "First."}, **ONCE)
    before = everything_of_ours()
    body = {"text": "Second."} if name == "comments" else bodies.get(name)
    refused = api.post(name, *arguments[name], body=body, **ONCE)
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert everything_of_ours() == before


def test_idempotency_key_used_by_two_users_executes_both_requests(asked: Any, as_role: Any) -> None:
    interrupt = asked()
    for role in ("reviewer", "lead"):
        body = {"text": f"Says the {role}."}
        made = as_role(role).post("comments", interrupt.pk, body=body, **ONCE)
        assert made.status_code == 201
    assert Comment.objects.count() == 2


def test_request_rejected_with_an_idempotency_key_is_executed_after_correction_with_the_same_key(
    asked: Any, as_role: Any
) -> None:
    interrupt, lead = asked(), as_role("lead")
    key = {"HTTP_IDEMPOTENCY_KEY": "mended"}
    assert lead.post("comments", interrupt.pk, body={"text": " "}, **key).status_code in (400, 422)
    assert lead.post("comments", interrupt.pk, body={"text": "Now."}, **key).status_code == 201


@pytest.mark.promise("P18")
def test_denied_request_with_an_idempotency_key_is_logged_and_stores_no_key(
    asked: Any, as_role: Any
) -> None:
    interrupt = asked()
    viewer = as_role("viewer")
    assert viewer.post("run-cancel", interrupt.run_id, body={}, **ONCE).status_code == 403
    assert AuditEntry.objects.filter(verb="refuse").count() == 1
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.promise("P18")
def test_repeated_request_after_permission_was_revoked_returns_404(
    asked: Any, as_role: Any
) -> None:
    interrupt, lead = asked(), as_role("lead")
    body = {"text": "A word."}
    assert lead.post("comments", interrupt.pk, body=body, **ONCE).status_code == 201
    get_user_model().objects.get(
        pk=IdempotencyRecord.objects.get().user_id
    ).user_permissions.clear()
    assert lead.post("comments", interrupt.pk, body=body, **ONCE).status_code == 404


def test_run_creation_uses_idempotency_key_header_as_run_key(api: Any, invoice: str) -> None:
    body = {"graph": invoice, "input": {"amount": 12}}
    first = api.post("runs", body=body, **ONCE)
    again = api.post("runs", body=body, **ONCE)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]
    assert ("Idempotent-Replayed" in first, again["Idempotent-Replayed"]) == (False, "true")
    assert Run.objects.get().key == "once"
    assert api.post("runs", body={**body, "key": "once"}, **ONCE).status_code == 200
    other = api.post("runs", body={**body, "key": "another"}, **ONCE)
    assert (other.status_code, other.json()["errors"][0]["header"]) == (400, "Idempotency-Key")
    reused = api.post("runs", body={**body, "input": {"amount": 13}}, **ONCE)
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")


def test_sweep_deletes_idempotency_records_older_than_a_day(asked: Any, api: Any) -> None:
    interrupt = asked()
    for key in ("old", "new"):
        headers = {"HTTP_IDEMPOTENCY_KEY": key}
        api.post("comments", interrupt.pk, body={"text": key}, **headers)
    IdempotencyRecord.objects.filter(key="old").update(created_at=Now() - timedelta(hours=25))
    assert remove_old() == 1
    assert IdempotencyRecord.objects.get().key == "new"
