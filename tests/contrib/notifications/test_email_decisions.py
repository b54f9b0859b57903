"""Approval and rejection with the buttons of an email."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client

from hitl_django import services
from hitl_django.contrib.notifications import decision_links, email_decision_page
from hitl_django.models import AuditEntry, Decision, Interrupt
from hitl_django.permissions import ModelPermissionPolicy

from .conftest import SITE
from .mail_server import MailServer

Ask = Callable[..., Interrupt]


class SendingPolicy(ModelPermissionPolicy):
    """A policy that allows payloads in emails."""

    def may_send_payload(self, channel: str, interrupt: Interrupt) -> bool:
        return channel == "email"


@pytest.fixture(autouse=True)
def opted_in(settings: Any, here: dict[str, Any]) -> None:
    cache.clear()
    settings.HITL = {**here, "EMAIL_DECISION_SECONDS": 3600}


@pytest.fixture
def visitor() -> Client:
    return Client(enforce_csrf_checks=True)


@pytest.fixture
def rita(person: Callable[..., Any]) -> Any:
    return person("rita", "Night")


def path_of(item: Interrupt, user: Any, type_: str = "approve") -> str:
    return decision_links.list_decision_urls(item, user)[type_].removeprefix(SITE)


def confirm(visitor: Client, path: str, **fields: Any) -> Any:
    found = re.search(r'name="signature" value="([^"]+)"', visitor.get(path).content.decode())
    return visitor.post(path, {"signature": found[1] if found else "", **fields})


def test_email_without_opt_in_has_no_decision_buttons(
    mails: MailServer, rita: Any, ask: Ask, send: Callable[[], None], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EMAIL_DECISION_SECONDS": None}
    ask(group="Night")
    send()
    [mail] = mails.all()
    assert "/notifications/decide/" not in mail.as_string()


def test_email_has_signed_approve_and_reject_buttons_in_text_and_html(
    mails: MailServer, rita: Any, ask: Ask, send: Callable[[], None], visitor: Client
) -> None:
    ask(group="Night")
    send()
    [mail] = mails.all()
    for part in mail.iter_parts():
        links = re.findall(
            r"https://shop.example(/hitl/notifications/decide/[^\s\"]+)", part.get_content()
        )
        assert len(links) == 2
        assert "Approve" in part.get_content()
        for link in links:
            assert visitor.get(link).status_code == 200


@pytest.mark.parametrize("method", ["get", "head"])
def test_email_decision_link_get_request_leaves_interrupt_pending(
    rita: Any, ask: Ask, visitor: Client, method: str
) -> None:
    item = ask(group="Night")
    path = path_of(item, rita)
    for address in (path, f"{path}?decision=approve"):
        assert getattr(visitor, method)(address).status_code == 200
    assert visitor.post(path, {"decision": "approve"}).status_code == 403
    assert not Decision.objects.exists()


@pytest.mark.parametrize("type_", ["approve", "reject"])
def test_email_decision_confirmed_without_login_is_stored_for_the_recipient_once(
    rita: Any, ask: Ask, visitor: Client, type_: str
) -> None:
    path = path_of(ask(group="Night"), rita, type_)
    response = confirm(visitor, path, reason="too early")
    assert (response.status_code, response["Location"]) == (302, path)
    decision = Decision.objects.get()
    assert (decision.type, decision.by, decision.via) == (type_, rita, "email")
    assert AuditEntry.objects.get(via="email").subject == str(decision.interrupt_id)
    again = visitor.get(path)
    assert again.status_code == 200
    assert "Your decision has been saved" in again.content.decode()
    assert confirm(visitor, path).status_code == 200
    assert Decision.objects.count() == 1
    assert not again.cookies


def test_email_rejection_stores_the_reason(rita: Any, ask: Ask, visitor: Client) -> None:
    confirm(visitor, path_of(ask(group="Night"), rita, "reject"), reason="too early")
    assert Decision.objects.get().reason == "too early"


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        (lambda item, user: services.decide(item.pk, "reject"), "This request is closed"),
        (
            lambda item, user: Interrupt.objects.update(payload_digest="0" * 32),
            "This request has changed",
        ),
        (lambda item, user: Interrupt.objects.update(version=2), "This request has changed"),
        (lambda item, user: user.user_permissions.clear(), "no longer valid"),
        (
            lambda item, user: get_user_model().objects.update(is_active=False),
            "no longer valid",
        ),
        (
            lambda item, user: get_user_model().objects.update(email="new@shop.example"),
            "no longer valid",
        ),
        (lambda item, user: user.delete(), "no longer valid"),
    ],
    ids=["decided", "changed", "version", "permission", "inactive", "address", "deleted"],
)
def test_email_decision_link_is_invalid_after_change_of_request_or_recipient(
    rita: Any, ask: Ask, visitor: Client, spend: Callable[[Interrupt, Any], Any], words: str
) -> None:
    item = ask(group="Night")
    path = path_of(item, rita)
    spend(item, rita)
    decided = Decision.objects.count()
    for response in (visitor.get(path), visitor.post(path, {"decision": "approve"})):
        page = response.content.decode()
        assert response.status_code == 410
        assert words in page
        assert "Refund 120" not in page
    assert Decision.objects.count() == decided


def test_email_decision_link_after_its_time_limit_returns_410(
    rita: Any, ask: Ask, visitor: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(ask(group="Night"), rita)
    settings.HITL = {**settings.HITL, "EMAIL_DECISION_SECONDS": 1e-6}
    response = visitor.get(path)
    assert response.status_code == 410
    assert "This link has expired" in response.content.decode()


def test_forged_email_decision_link_returns_404(rita: Any, ask: Ask, visitor: Client) -> None:
    path = path_of(ask(group="Night"), rita)
    for forged in (path.replace(path[-6], "A" if path[-6] != "A" else "B"), path[:40] + "x/"):
        assert visitor.get(forged).status_code == 404


def test_email_decision_page_shows_payload_only_if_policy_allows(
    rita: Any, ask: Ask, visitor: Client, settings: Any
) -> None:
    path = path_of(ask(group="Night"), rita)
    page = visitor.get(path).content.decode()
    assert "Refund 120 EUR?" in page
    assert "Amount" not in page
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.SendingPolicy"}
    assert "Amount" in visitor.get(path).content.decode()


def test_email_for_request_with_required_claim_or_user_without_permission_has_no_decision_buttons(
    rita: Any, person: Callable[..., Any], ask: Ask
) -> None:
    assert not decision_links.list_decision_urls(ask(claim_required=True), rita)
    assert not decision_links.list_decision_urls(ask(), person("vik", sees=False))


def test_email_decision_on_request_claimed_by_another_user_returns_410_and_stores_no_decision(
    rita: Any, person: Callable[..., Any], ask: Ask, visitor: Client
) -> None:
    item = ask(group="Night")
    path = path_of(item, rita)
    services.claim(item.pk, by=person("ravi", "Night"))
    response = confirm(visitor, path)
    assert response.status_code == 410
    assert "Someone else is working on this" in response.content.decode()
    assert not Decision.objects.exists()


def test_email_decision_after_undo_needs_a_new_email(
    rita: Any, ask: Ask, visitor: Client, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}
    item = ask(group="Night")
    path = path_of(item, rita)
    confirm(visitor, path)
    services.undo(item.pk, by=rita)
    assert "This request has changed" in visitor.get(path).content.decode()


def test_email_decision_page_limits_the_rate_of_requests_and_logs_no_token(
    rita: Any, ask: Ask, visitor: Client, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    path = path_of(ask(group="Night"), rita)
    monkeypatch.setattr(email_decision_page, "LIMIT", "1/day")
    assert visitor.get(path).status_code == 200
    response = visitor.get(path)
    assert response.status_code == 429
    assert response["Referrer-Policy"] == "no-referrer"
    assert "no-store" in response["Cache-Control"]
    assert path.rstrip("/").rpartition("/")[2] not in caplog.text


def test_email_decision_page_of_large_tool_call_shows_its_payload(
    rita: Any, ask: Ask, visitor: Client, settings: Any
) -> None:
    call = {"name": "pay", "args": {"order": "A-7", "notes": ["word " * 50] * 50}}
    config = {"action_name": "pay", "allowed_decisions": ["approve", "reject"]}
    payload = {"action_requests": [call], "review_configs": [config]}
    item = ask(group="Night")
    Interrupt.objects.filter(pk=item.pk).update(payload=payload, dialect="hitl_request")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.SendingPolicy"}
    response = visitor.get(path_of(Interrupt.objects.get(), rita))
    assert response.status_code == 200
    assert "A-7" in response.content.decode()
