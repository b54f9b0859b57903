"""Chunked bodies, which have the same outcome as bodies with a Content-Length."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from hitl_django.api.urls import urlpatterns
from hitl_django.models import AuditEntry, Interrupt

from .addresses import arguments, bodies
from .conftest import in_chunks

__all__ = ["arguments", "bodies"]  # fixtures

pytestmark = [pytest.mark.promise("P21"), pytest.mark.django_db]

#: A body for each URL with an optional body. The body changes the result.
MORE = {
    "run-cancel": {"reason": "The customer withdrew it."},
    "next": {"graph": "another"},
    "claim": {"seconds": 7, "take_over": False},
    "assign": {"to": "rita"},
}
POSTS = [pattern.name for pattern in urlpatterns if hasattr(pattern.callback.cls, "post")]
#: Keys of audit log entries whose values differ for each new object.
IDS = {"invitation", "comment", "decision", "salts"}


@pytest.fixture
def outcome(api: Any, arguments: dict[str, tuple[Any, ...]], make_user: Any) -> Any:
    """Post a body to a URL. Return the response and the resulting audit log entries."""
    rita = make_user(is_superuser=True)
    get_user_model().objects.filter(pk=rita.pk).update(username="rita")

    def post(name: str, body: bytes, **options: Any) -> Any:
        with transaction.atomic():
            response = api.post(name, *arguments[name], body=body, **options)
            noted = [
                (verb, {name: told for name, told in detail.items() if name not in IDS})
                for verb, detail in AuditEntry.objects.order_by("pk").values_list("verb", "detail")
            ]
            soon = timezone.now() + timedelta(minutes=1)
            is_short = Interrupt.objects.filter(claimed_until__lt=soon).exists()
            assigned = [*Interrupt.objects.values_list("status", "assignee_label")]
            told = {} if response.status_code == 204 else response.json()
            found = (response.status_code, sorted(told), told.get("errors"), noted, assigned)
            found = (*found, is_short)
            transaction.set_rollback(True)
        return found

    return post


@pytest.mark.parametrize("name", POSTS)
def test_api_post_with_chunked_body_returns_the_response_to_a_body_with_content_length(
    name: str, outcome: Any, bodies: dict[str, dict[str, Any]]
) -> None:
    body = json.dumps(bodies.get(name) or MORE.get(name) or {}).encode()
    for raw in (body, b"", b"{}", b'{"unheard-of": 1}', b'{"half": ', b"[1]", b"\xff", b" "):
        assert outcome(name, raw, in_chunks=True) == outcome(name, raw), raw
    status = outcome(name, body, in_chunks=True)[0]
    assert status < 300, outcome(name, body, in_chunks=True)
    assert outcome(name, b'{"unheard-of": 1}', in_chunks=True)[0] == 400
    assert outcome(name, body, in_chunks=True, content_type="text/plain")[0] == 415
    for empty in (b"", b"{}"):
        if name in MORE:  # the result differs from the result without a body
            assert outcome(name, body, in_chunks=True) != outcome(name, empty)


class Endless:
    """Endless body that counts the bytes read."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, size: int = 0) -> bytes:
        self.taken += min(size, 1000)
        return b" " * min(size, 1000)

    readline = read


@pytest.mark.parametrize("name", POSTS)
def test_api_post_with_endless_chunked_body_returns_413_after_reading_to_the_limit(
    name: str, api: Any, arguments: dict[str, tuple[Any, ...]], settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100_000
    body = Endless()
    response = api.post(name, *arguments[name], **{**in_chunks(b""), "wsgi.input": body})
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert body.taken == 100_001


def test_api_post_with_chunked_body_returns_411_if_the_server_does_not_terminate_the_input(
    api: Any, make_interrupt: Any
) -> None:
    interrupt = make_interrupt()
    chunks = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    for name in ("claim", "decisions"):
        response = api.post(name, interrupt.pk, body=b"{}", **chunks)
        assert (response.status_code, response.json()["code"]) == (411, "length_required")
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"CONTENT_LENGTH": "2", "HTTP_TRANSFER_ENCODING": "chunked"}, "Transfer-Encoding"),
        ({"CONTENT_LENGTH": "0", "HTTP_TRANSFER_ENCODING": "chunked"}, "Transfer-Encoding"),
        ({"CONTENT_LENGTH": "0", "HTTP_TRANSFER_ENCODING": ""}, "Transfer-Encoding"),
        ({"CONTENT_LENGTH": "-1"}, "Content-Length"),
        ({"CONTENT_LENGTH": "+2"}, "Content-Length"),
        ({"CONTENT_LENGTH": "2, 2"}, "Content-Length"),
        ({"CONTENT_LENGTH": "0x2"}, "Content-Length"),
        ({"CONTENT_LENGTH": "²"}, "Content-Length"),
        ({"CONTENT_LENGTH": "many"}, "Content-Length"),
    ],
)
@pytest.mark.parametrize("is_terminated", [True, False])
def test_api_post_with_two_body_lengths_returns_400_naming_the_header(
    api: Any, make_interrupt: Any, headers: dict[str, str], named: str, is_terminated: bool
) -> None:
    headers = {**headers, "wsgi.input_terminated": is_terminated}  # type: ignore[dict-item]
    response = api.post("claim", make_interrupt().pk, body=b"{}", **headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert [fault["header"] for fault in response.json()["errors"]] == [named]
    assert not AuditEntry.objects.exists()


class BreaksOff:
    """Body whose client disconnects, as reported by each server."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def read(self, size: int = 0) -> bytes:
        raise self.error("no more data")

    readline = read


@pytest.mark.parametrize(
    ("chunks", "error"), [(False, OSError), (True, OSError), (True, RuntimeError)]
)
def test_claim_with_truncated_body_returns_400_and_claims_no_interrupt(
    make_user: Any, make_interrupt: Any, chunks: bool, error: type[Exception]
) -> None:
    # With a session, Django's CSRF protection first looks for its token in the body, and ignores an
    # unreadable body.
    client, interrupt, token = Client(enforce_csrf_checks=True), make_interrupt(), "a" * 32
    client.force_login(make_user(is_superuser=True))
    client.cookies["csrftoken"] = token
    sent = {**in_chunks(b""), "wsgi.input": BreaksOff(error)}
    if not chunks:
        sent |= {"CONTENT_LENGTH": "20"}
        del sent["HTTP_TRANSFER_ENCODING"]
    path = reverse("hitl_django:claim", args=[interrupt.pk])
    response = client.generic("POST", path, headers={"X-CSRFToken": token}, **sent)
    assert (response.status_code, response.json()["code"]) == (400, "bad_request")
    assert not AuditEntry.objects.exists()
