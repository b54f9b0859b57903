"""Forms submitted after the session has expired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from hitl_django.models import Comment, Decision, Interrupt

from .browsing import press, sheet_of, text_of, told
from .conftest import list_of, make_interrupt, page_of
from .test_queue_actions import handle

Asked = Callable[..., Interrupt]
LOST = "Your decision was not recorded"


def log_in(client: Client, page: str, person: Callable[[str], Any]) -> Any:
    """Follow the log-in link of a page, and return the page after the log-in."""
    user = person("reviewer")
    user.set_password("demo")
    user.save()
    url = page.split('class="button default" href="')[1].split('"')[0].replace("&amp;", "&")
    assert url.startswith(reverse("admin:login"))
    return client.post(url, {"username": "reviewer", "password": "demo"})


@pytest.mark.parametrize("reason", ["Half a <thought>", ""])
def test_decision_with_expired_session_shows_typed_reason_before_login_and_message_after_login(
    reviewer: Client, asked: Asked, person: Callable[[str], Any], reason: str
) -> None:
    item = asked()
    sheet = sheet_of(reviewer, item)
    guest = Client()
    response = press(guest, item, "approve", sheet, reason=reason)
    assert response.status_code == 403
    assert "no-store" in response["Cache-Control"]
    page = text_of(response)
    assert LOST in page
    assert ("Half a &lt;thought&gt;" in page) == bool(reason)
    assert not Decision.objects.exists()
    response = log_in(guest, page, person)
    assert response["Location"] == f"{page_of(item)}?unsent=1"
    page = text_of(guest.get(response["Location"]))
    assert f"{LOST}." in page
    assert LOST not in text_of(guest.get(page_of(item)))


def test_decision_with_expired_session_keeps_the_filters_of_the_list_after_login(
    reviewer: Client, asked: Asked, person: Callable[[str], Any]
) -> None:
    item = asked()
    url = f"{page_of(item)}?_changelist_filters=show%3Dmine%26q%3Da"
    guest = Client()
    page = text_of(guest.post(url, {**sheet_of(reviewer, item), "decision": "reject"}))
    assert log_in(guest, page, person)["Location"] == f"{url}&unsent=1"


def test_comment_with_expired_session_shows_typed_text_before_login_and_message_after_login(
    person: Callable[[str], Any],
) -> None:
    item, guest = make_interrupt({}), Client()
    page = text_of(handle(guest, item, "comment", text="Half a thought"))
    assert "Your submission was not saved" in page
    assert "Half a thought" in page
    assert not Comment.objects.exists()
    response = guest.get(log_in(guest, page, person)["Location"])
    assert told(response) == ["Your submission was not saved."]
    assert response["Location"] == page_of(item)


def test_bulk_decision_with_expired_session_shows_a_message_after_login(
    person: Callable[[str], Any],
) -> None:
    guest, bulk = Client(), reverse("admin:hitl_django_reviewitem_bulk")
    page = text_of(guest.post(bulk, {"decision": "approve", "item": "x"}))
    assert LOST in page
    response = guest.get(log_in(guest, page, person)["Location"])
    assert told(response) == ["Your decision was not recorded."]
    assert response["Location"] == list_of()


def test_bulk_claim_with_expired_session_shows_a_message_after_login(reviewer: Client) -> None:
    many = reverse("admin:hitl_django_reviewitem_many")
    response = Client().post(many, {"verb": "claim", "item": "x"})
    assert response["Location"].startswith(reverse("admin:login"))
    response = reviewer.get(many)
    assert told(response) == ["Your submission was not saved."]
    assert response["Location"] == list_of()


def test_claiming_and_opening_a_request_without_session_redirect_to_login() -> None:
    item, guest = make_interrupt({}), Client()
    assert handle(guest, item, "claim").status_code == 302
    assert guest.get(page_of(item)).status_code == 302
