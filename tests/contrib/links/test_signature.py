"""The form's signature: binding, validity, and forms without a signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from hitl_django import services
from hitl_django.models import Decision, Interrupt
from tests.admin.browsing import text_of

from .conftest import link_to, signature_of


@pytest.fixture
def fill(visitor: Client) -> Callable[..., dict[str, str]]:
    """Open a link's page, and fill in the form."""

    def fill_in(url: str, **fields: str) -> dict[str, str]:
        signature = signature_of(visitor.get(url).content.decode())
        return {"signature": signature, "decision": "reject", **fields}

    return fill_in


def test_link_form_without_signature_returns_403_with_typed_reason_for_resubmission(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    url = link_to(asked())
    response = visitor.post(url, {"decision": "reject", "reason": "It is <b>too</b> early."})
    assert response.status_code == 403
    page = response.content.decode()
    assert "Your session could not be verified. Check the page and submit again." in text_of(
        response
    )
    assert "It is &lt;b&gt;too&lt;/b&gt; early.</textarea>" in page
    assert not Decision.objects.exists()
    again = {"decision": "reject", "reason": "too early", "signature": signature_of(page)}
    assert visitor.post(url, again).status_code == 302
    assert Decision.objects.get().reason == "too early"


def test_link_form_with_signature_of_another_link_returns_403(
    asked: Callable[..., Interrupt], visitor: Client, fill: Any
) -> None:
    interrupt = asked()
    url, second, other = link_to(interrupt), link_to(interrupt), link_to(asked())
    for foreign in (second, other):
        assert visitor.post(url, fill(foreign)).status_code == 403
    form = fill(url)
    form["signature"] = form["signature"].swapcase()
    assert visitor.post(url, form).status_code == 403
    assert not Decision.objects.exists()


def test_link_form_signed_with_a_fallback_secret_key_is_accepted(
    asked: Callable[..., Interrupt], visitor: Client, fill: Any, settings: Any
) -> None:
    url, other = link_to(asked()), link_to(asked())
    form, late = fill(url), fill(other)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the next one", [settings.SECRET_KEY]
    assert visitor.post(url, form).status_code == 302
    settings.SECRET_KEY_FALLBACKS = []
    assert visitor.post(other, late).status_code == 403


def test_link_form_submitted_from_second_tab_after_a_decision_saves_no_decision(
    asked: Callable[..., Interrupt], visitor: Client, fill: Any
) -> None:
    url = link_to(asked())
    first, second = fill(url, reason="the first"), fill(url, reason="the second")
    assert visitor.post(url, second).status_code == 302
    assert visitor.post(url, first).status_code == 200  # used, and created for this user
    assert Decision.objects.get().reason == "the second"


@pytest.mark.parametrize("missing", ["sessions", "csrf"])
def test_link_form_without_session_csrf_and_message_middleware_saves_the_decision(
    missing: str, asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    url = link_to(asked())
    needless = ("Session", "Authentication", "Message", *(["Csrf"] if missing == "csrf" else []))
    kept = [name for name in settings.MIDDLEWARE if not any(word in name for word in needless)]
    settings.MIDDLEWARE, settings.CSRF_USE_SESSIONS = kept, missing == "csrf"
    apps = ("django.contrib.sessions", "django.contrib.messages")
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name not in apps]
    page = visitor.get(url)
    assert page.status_code == 200
    assert "Cookie" not in page.headers.get("Vary", "")
    form = {"decision": "reject", "signature": signature_of(page.content.decode())}
    response = visitor.post(url, form)
    assert response.status_code == 302
    assert not visitor.cookies


@pytest.mark.parametrize("held_up", ["calls", "claim", "key"])
def test_link_form_rejected_because_of_rate_limit_claim_or_key_change_shows_typed_reason(
    held_up: str,
    asked: Callable[..., Interrupt],
    visitor: Client,
    fill: Any,
    settings: Any,
    django_user_model: Any,
) -> None:
    interrupt = asked()
    url = link_to(interrupt)
    form = fill(url, reason="an hour's work")
    if held_up == "calls":
        settings.HITL = {**settings.HITL, "THROTTLE_LINK": "1/day"}
        visitor.get(url)
    elif held_up == "claim":
        Interrupt.objects.update(claim_required=True)
        ada = django_user_model.objects.create_superuser("ada")
        services.claim(interrupt.pk, by=ada)
    else:
        settings.SECRET_KEY = "another"
    response = visitor.post(url, form)
    assert response.status_code == {"calls": 429, "claim": 410, "key": 403}[held_up]
    assert "an hour&#x27;s work" in response.content.decode()
    if held_up != "key":
        assert 'name="signature" value="' + form["signature"] in response.content.decode()
    assert not Decision.objects.exists()
