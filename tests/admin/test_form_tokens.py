"""Forms without a valid CSRF token, whose typed text is shown again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from django.test import Client, override_settings

from hitl_django.admin import outage_page
from hitl_django.models import Comment, Decision, Interrupt

from .addresses import ADDRESSES, address_of, body_of, rows
from .browsing import sheet_of, text_of
from .conftest import page_of

__all__ = ["rows"]  # the fixture

TEXT = 'She "called" <b>twice</b>.\r\n\r\n  Sounds honest & kind.'
Asked = Callable[..., Interrupt]


@pytest.fixture
def strict(person: Callable[[str], Any]) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("reviewer"))
    return client


def assert_refused(response: Any) -> str:
    assert response.status_code == 403
    assert "no-store" in response["Cache-Control"]
    page = text_of(response)
    assert "Your submission was rejected" in page
    # No other user can submit the form, regardless of who opened it.
    assert "<form" not in page
    assert "<button" not in page
    return page


def test_post_without_csrf_token_to_every_admin_page_saves_no_decision_or_comment(
    admin_user: Any, rows: dict[str, Any]
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    before = Decision.objects.count()
    for name in ADDRESSES:
        page = assert_refused(client.post(address_of(name, rows), body_of(name, rows)))
        assert "because" in page, name
    assert Decision.objects.count() == before
    assert not Comment.objects.exists()


@pytest.mark.promise("P18")
@override_settings(MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware"])  # fmt: skip
def test_request_page_without_csrf_middleware_rejects_post_without_token(
    strict: Client, asked: Asked
) -> None:
    assert_refused(strict.post(page_of(asked()), {"decision": "approve"}))
    assert not Decision.objects.exists()


def test_csrf_error_page_shows_entered_values_escaped_and_links_to_the_request(
    strict: Client, asked: Asked
) -> None:
    item = asked()
    body = {**sheet_of(strict, item), "answer/amount": "99", "reason": TEXT, "decision": "approve"}
    page = assert_refused(strict.post(page_of(item), {**body, "csrfmiddlewaretoken": "x" * 32}))
    assert "She &quot;called&quot; &lt;b&gt;twice&lt;/b&gt;." in page
    assert "<label>Reason<textarea" in page
    assert "<label>Amount<textarea" in page
    assert item.payload_digest not in page
    assert f'href="{page_of(item)}"' in page
    assert not Decision.objects.exists()


def test_csrf_error_page_shows_text_typed_for_an_alternative_of_a_schema(
    strict: Client, asked: Asked
) -> None:
    names = "answer/contact?kind", "answer/contact?0/address", "answer/lines?rows"
    page = assert_refused(strict.post(page_of(asked()), dict(zip(names, "012", strict=True))))
    assert page.count("<textarea") == 1
    assert "<label>Address<textarea" in page


def test_csrf_error_page_links_only_to_admin_urls(strict: Client, asked: Asked) -> None:
    url = f'{page_of(asked())}?next=//evil.example/"><script>'
    page = assert_refused(strict.post(url, {"<script>": "<script>alert(1)</script>"}))
    assert "<script" not in page
    assert 'href="/admin/' in page


def test_csrf_error_page_omits_entered_values_above_the_size_limit(
    strict: Client, asked: Asked
) -> None:
    with mock.patch.object(outage_page, "MAX_KEPT", 10):
        page = assert_refused(strict.post(page_of(asked()), {"reason": TEXT}))
    assert "Back button" in page
    assert "honest" not in page


def test_request_form_with_csrf_token_saves_the_decision(strict: Client, asked: Asked) -> None:
    item = asked()
    body = {**sheet_of(strict, item), "decision": "approve"}
    assert strict.post(page_of(item), body).status_code == 302
    assert Decision.objects.get().type == "approve"


def test_csrf_error_page_with_language_code_de_is_in_german(
    strict: Client, asked: Asked, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    response = strict.post(page_of(asked()), {"reason": TEXT})
    assert "Es wurde nichts gespeichert." in text_of(response)
    assert '<html lang="de"' in text_of(response)
