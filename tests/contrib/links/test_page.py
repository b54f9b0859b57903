"""The page of a review link: display by GET, decision by POST, and privacy."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.test import Client

from hitl_django import services
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link, resolve_link, revoke_link
from hitl_django.models import Decision, Interrupt, Run
from tests.admin.browsing import post_of
from tests.admin.test_hostile import MARK, TEXTS, assert_inert, hostile_interrupt

from .conftest import DANA, link_to, send, signature_of

TWO_ACTIONS = {
    "action_requests": [
        {"name": "send_email", "args": {"to": "dana@example.com"}, "description": "Tells her."},
        {"name": "pay", "args": {"cents": 1200}},
    ],
    "review_configs": [
        {"action_name": name, "allowed_decisions": ["approve", "edit", "reject"]}
        for name in ("send_email", "pay")
    ],
}


def test_link_page_shows_the_request_and_stores_decision_with_reason(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    interrupt = asked()
    url = link_to(interrupt)
    page = visitor.get(url).content.decode()
    for words in ("Publish the news?", "Dana K., your decision is needed:", "Approve", "Reject"):
        assert words in page
    response = send(visitor, url, decision="reject", reason="too early")
    assert (response.status_code, response["Location"]) == (302, url)
    decision = Decision.objects.get()
    assert (decision.type, decision.by_label, decision.via) == ("reject", DANA, "link")
    assert decision.reason == "too early"
    after = visitor.get(url)
    assert after.status_code == 200
    assert "Thank you, Dana K." in after.content.decode()
    assert "You rejected this request." in after.content.decode()


@pytest.mark.parametrize("where", ["on another question", "on a later version"])
def test_link_page_after_decision_shows_only_the_decision_made_with_the_link(
    asked: Callable[..., Interrupt], visitor: Client, where: str
) -> None:
    interrupt, other = asked(), asked(text="other news")
    url = link_to(interrupt)
    assert send(visitor, url, decision="reject").status_code == 302
    later = Decision.objects.get()
    later.pk, later.type = uuid4(), "approve"
    if where == "on another question":  # whose creator has given it the same name
        later.interrupt = other
    else:
        later.version, later.key = later.version + 1, ""
    later.save(force_insert=True)
    assert "You rejected this request." in visitor.get(url).content.decode()


@pytest.mark.promise("P8")
def test_link_page_accepts_decision_after_secret_key_change(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    url = link_to(asked())
    settings.SECRET_KEY = "another, with no fallbacks"
    assert send(visitor, url, decision="reject", reason="no").status_code == 302
    assert Decision.objects.get().by_label == DANA


def test_link_page_with_invalid_number_shows_errors_and_leaves_link_usable(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    url = link_to(asked("typed"))
    page = visitor.get(url).content.decode()
    names = re.findall(r'name="(answer[^"]*)"', page)
    assert names
    response = send(visitor, url, decision="approve", **{"answer/amount": "lots"})
    assert response.status_code == 200
    assert "Not submitted. Please correct the errors" in response.content.decode()
    assert resolve_link(url.rstrip("/").rpartition("/")[2]).state == "open"


@pytest.mark.parametrize("method", ["get", "head"])
def test_link_page_get_and_head_with_decision_parameter_leave_interrupt_pending(
    asked: Callable[..., Interrupt], visitor: Client, method: str
) -> None:
    interrupt = asked()
    url = link_to(interrupt)
    for query in ("", "?decision=approve"):
        assert getattr(visitor, method)(url + query).status_code == 200
    assert ReviewLink.objects.get().used_at is None
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options", "trace"])
def test_link_page_returns_405_for_methods_other_than_get_head_and_post(
    asked: Callable[..., Interrupt], visitor: Client, method: str
) -> None:
    response = getattr(Client(), method)(link_to(asked()))
    assert response.status_code == 405


def test_link_page_post_without_signature_returns_403(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    url = link_to(asked())
    visitor.get(url)
    assert visitor.post(url, {"decision": "approve"}).status_code == 403
    assert not Decision.objects.exists()


def test_link_page_post_without_signature_and_csrf_middleware_returns_403(
    asked: Callable[..., Interrupt], settings: Any
) -> None:
    kept = [name for name in settings.MIDDLEWARE if "Csrf" not in name]
    settings.MIDDLEWARE = kept
    url = link_to(asked())
    assert Client(enforce_csrf_checks=True).post(url, {"decision": "approve"}).status_code == 403


def test_link_page_returns_200_to_anonymous_visitor_with_login_required_middleware(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    login = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, login]
    assert visitor.get(link_to(asked())).status_code == 200


@pytest.mark.promise("P22")
@pytest.mark.parametrize(
    ("spend", "headline"),
    [
        (lambda interrupt: ReviewLink.objects.update(expires_at=Now()), "This link has expired"),
        (lambda interrupt: ReviewLink.objects.update(revoked_at=Now()), "This link was revoked"),
        (lambda interrupt: Interrupt.objects.update(version=9), "This request has changed"),
        (
            lambda interrupt: services.decide(interrupt.pk, "approve"),
            "Someone else has already decided",
        ),
        (lambda interrupt: services.cancel(interrupt.run_id), "This request is closed"),
    ],
)
def test_link_page_of_unusable_link_returns_410_with_reason_and_without_the_request(
    asked: Callable[..., Interrupt], visitor: Client, spend: Any, headline: str
) -> None:
    interrupt = asked(text="a secret plan")
    url = link_to(interrupt)
    signature = signature_of(visitor.get(url).content.decode())
    assert signature
    spend(interrupt)
    sent = {"decision": "reject", "signature": signature}
    for response in (visitor.get(url), visitor.post(url, sent)):
        assert response.status_code == 410
        assert headline in response.content.decode()
        assert "secret plan" not in response.content.decode()
    assert not Decision.objects.filter(via="link").exists()


def test_link_page_with_invalid_token_returns_404(visitor: Client) -> None:
    for token in ("x", "A" * 64, "../admin"):
        response = visitor.get(f"/hitl/links/{token}/")
        assert response.status_code == 404
    response = visitor.get(f"/hitl/links/{'A' * 64}/")
    assert "Link not found" in response.content.decode()


def test_link_page_headers_forbid_caching_indexing_and_framing(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    url = link_to(asked())
    settings.SECURE_REFERRER_POLICY = "unsafe-url"
    for address in (url, f"/hitl/links/{'A' * 64}/"):
        headers = visitor.get(address).headers
        assert "no-store" in headers["Cache-Control"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Robots-Tag"] == "noindex, nofollow, noarchive"
        assert headers["X-Frame-Options"] == "DENY"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self'; form-")
    settings.STATIC_URL = "https://cdn.example/static/"
    assert "style-src https://cdn.example;" in visitor.get(url)["Content-Security-Policy"]


@pytest.mark.promise("P21")
def test_link_page_visits_above_the_rate_limit_return_429(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "THROTTLE_LINK": "2/day"}
    url, other = link_to(asked()), link_to(asked())
    statuses = [visitor.get(url).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert visitor.get(other).status_code == 200  # for all users of the same IP address
    wrong = url[:-9] + "AAAAAAAA/"
    claimed = [{"X-Forwarded-For": f"10.0.0.{n}"} for n in range(3)]
    guesses = [visitor.get(wrong, headers=header).status_code for header in claimed]
    assert guesses == [404, 404, 429]
    assert visitor.get(wrong, REMOTE_ADDR="10.9.9.9").status_code == 404
    settings.HITL = {**settings.HITL, "THROTTLE_LINK": None}
    assert visitor.get(url).status_code == 200


def test_link_page_offers_and_accepts_only_decisions_allowed_by_the_link(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    url = link_to(asked(), decisions=["approve"])
    page = visitor.get(url).content.decode()
    assert 'value="approve"' in page
    for other in ("reject", "edit", "respond"):
        assert f'value="{other}"' not in page
    assert "Choose a decision to submit." in send(visitor, url, decision="reject").content.decode()
    assert not Decision.objects.exists()


@pytest.mark.any_database
@pytest.mark.promise("P19")
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_link_page_escapes_hostile_request_text_and_link_name(text: str, visitor: Client) -> None:
    interrupt = hostile_interrupt(text)
    name = f"{MARK} <b>"
    link = create_review_link(interrupt.pk, name=name, expires=timedelta(days=1))
    for response in (
        visitor.get(link.url),
        send(visitor, link.url, decision=text, reason=text),
    ):
        assert response.status_code == 200
        assert_inert(response.content.decode())


@pytest.mark.promise("P22")
def test_link_token_appears_in_no_log_entry(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any, caplog: Any
) -> None:
    interrupt = asked()
    link = create_review_link(interrupt.pk, name=DANA)
    token = link.url.rstrip("/").rpartition("/")[2]
    visitor.get(link.url)
    send(visitor, link.url, decision="no such thing")
    settings.HITL = {**settings.HITL, "THROTTLE_LINK": "1/day"}
    assert [visitor.get(link.url).status_code for _ in range(2)] == [200, 429]
    settings.HITL = {**settings.HITL, "THROTTLE_LINK": None}
    revoke_link(link.id)
    assert visitor.get(link.url).status_code == 410
    assert token not in caplog.text


def test_link_page_names_the_creator_of_the_link(
    asked: Callable[..., Interrupt], visitor: Client, django_user_model: Any
) -> None:
    ada = django_user_model.objects.create_superuser("ada")
    link = create_review_link(asked().pk, name=DANA, by=ada)
    assert "Dana K., ada is asking for your decision:" in visitor.get(link.url).content.decode()
    revoke_link(link.id)
    assert "ask ada for a new link" in visitor.get(link.url).content.decode()


def test_link_page_with_truncated_text_offers_no_download(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    item = asked()
    Interrupt.objects.update(payload={"title": "Long?", "text": "x" * 30_000})
    page = visitor.get(link_to(item)).content.decode()
    assert "10000 more characters not shown." in page
    assert "Ask the person who sent you the link for the full text." in page
    assert "ownload" not in page


@pytest.mark.parametrize("graph", ["approval", "typed"])
def test_link_page_preview_shows_entered_values_and_saves_no_decision(
    asked: Callable[..., Interrupt], visitor: Client, graph: str
) -> None:
    url = link_to(asked(graph))
    field = "answer/text" if graph == "approval" else "answer/amount"
    typed = {field: "77", "reason": "because"}
    response = send(visitor, url, preview="1", **typed)
    page = response.content.decode()
    assert response.status_code == 200
    assert "Not submitted yet. This is what will be sent:" in page
    assert "77" in page
    assert "because" in page
    assert not Decision.objects.exists()
    # The button of a decision takes precedence over other submitted fields.
    assert send(visitor, url, preview="1", decision="reject", **typed).status_code == 302
    assert Decision.objects.get().type == "reject"


def test_link_page_preview_without_signature_returns_403(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    url = link_to(asked())
    response = visitor.post(url, {"preview": "1", "answer/text": "77"})
    assert response.status_code == 403
    assert "Not submitted yet. This is what will be sent:" not in response.content.decode()


def test_link_page_undo_button_reopens_the_request_until_the_time_limit(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}
    interrupt = asked()
    url = link_to(interrupt)
    send(visitor, url, decision="reject")
    page = visitor.get(url).content.decode()
    assert 'name="undo"' in page
    assert 'name="undo"' in visitor.post(url, {"undo": "1"}).content.decode()  # without a signature
    undone = visitor.post(url, {"undo": "1", "signature": signature_of(page)})
    assert (undone.status_code, undone["Location"]) == (302, url)
    assert "Approve" in visitor.get(url).content.decode()
    send(visitor, url, decision="reject", reason="after all")
    assert Decision.objects.get(effective=True).reason == "after all"
    Run.objects.update(resumes_at=Now() - timedelta(seconds=1))
    late = visitor.get(url).content.decode()
    assert 'name="undo"' not in late
    assert "You rejected this request." in late


def test_link_page_of_request_with_two_actions_saves_a_decision_for_each_action(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    url = link_to(asked("plain", payload=TWO_ACTIONS))
    page = visitor.get(url).content.decode()
    assert "Send email" in page
    assert "dana@example.com" in page
    form = post_of(page.split("<form", 1)[1].split("</form>")[0])
    choices = {"action/0-decision": "approve", "action/1-decision": "reject"}
    assert visitor.post(url, {**form, **choices, "decision": "each"}).status_code == 302
    decision = Decision.objects.get()
    assert [one["type"] for one in decision.value["decisions"]] == ["approve", "reject"]
