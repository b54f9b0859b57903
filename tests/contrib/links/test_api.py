"""Review links over the API: the URL is in one response, and works."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Decision
from tests.api.conftest import *  # noqa: F403

from .conftest import signature_of

DANA = {"name": "Dana K.", "decisions": ["approve", "reject"]}


def test_review_link_created_over_the_api_is_listed_and_cannot_be_revoked_after_use(
    api: Any, asked: Any
) -> None:
    interrupt = asked(free=True)
    response = api.post("links", interrupt.pk, body=DANA)
    assert (response.status_code, response["Cache-Control"]) == (201, "no-store")
    made = response.json()
    assert made["url"].startswith("http://testserver/hitl/links/")
    assert made["decisions"] == ["approve", "reject"]

    listed = api.get("links", interrupt.pk).json()["results"]
    assert [(one["id"], one["state"]) for one in listed] == [(made["id"], "open")]
    assert "url" not in listed[0]

    visitor, page = Client(), urlsplit(made["url"]).path
    signature = signature_of(visitor.get(page).content.decode())
    written = {"decision": "approve", "signature": signature}
    assert visitor.post(page, written).status_code == 302
    assert Decision.objects.get().by_label == "Dana K."
    taken_back = api.call("DELETE", "link-detail", interrupt.pk, made["id"])
    assert (taken_back.status_code, taken_back.json()["code"]) == (409, "link_spent")
    assert api.post("links", interrupt.pk, body=DANA).json()["code"] == "already_decided"


def test_review_link_revoked_over_the_api_is_listed_as_revoked(api: Any, asked: Any) -> None:
    interrupt, other = asked(), asked()
    link = create_review_link(interrupt.pk, name="Dana K.")
    assert api.call("DELETE", "link-detail", other.pk, link.id).status_code == 404
    assert api.call("DELETE", "link-detail", interrupt.pk, link.id).status_code == 204
    (listed,) = api.get("links", interrupt.pk).json()["results"]
    assert listed["state"] == "revoked"
    assert listed["revoked_at"]


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({}, 400, "/name"),
        ({"name": "Dana", "by": "ada"}, 400, "/by"),
        ({"name": "Dana", "decisions": ["expire"]}, 400, "/decisions/0"),
        ({"name": "Dana", "decisions": ["respond"]}, 422, "/decisions"),
        ({"name": "Dana", "expires_at": "soon"}, 400, "/expires_at"),
        ({"name": "Dana", "expires_at": "2001-01-01T00:00:00Z"}, 422, "/expires_at"),
        ({"name": "Dana", "email": "dana"}, 422, "/email"),
    ],
)
def test_review_link_creation_with_invalid_field_returns_error_with_pointer(
    api: Any, asked: Any, body: Any, status: int, pointer: str
) -> None:
    response = api.post("links", asked().pk, body=body)
    assert response.status_code == status
    assert response.json()["errors"][0]["pointer"] == pointer
    assert not ReviewLink.objects.exists()
