"""Decision with a review link in a browser without JavaScript."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError

from hitl_django.contrib.links.services import create_review_link, revoke_link
from hitl_django.models import Decision, Interrupt, Run
from tests.browser.conftest import *  # noqa: F403
from tests.browser.conftest import leads_on

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


@pytest.fixture
def visit(chromium: Any, live_server: Any) -> Iterator[Callable[..., Any]]:
    """Open a page in a separate window without scripts. An error in the console fails the test."""
    contexts, complaints = [], []

    def open_page(url: str, **options: Any) -> Any:
        context = chromium.new_context(
            base_url=live_server.url, java_script_enabled=False, **options
        )
        contexts.append(context)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                "Content Security Policy" in message.text and complaints.append(message.text)
            ),
        )
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("TEST_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def open_drawer(page: Any) -> None:
    if not page.locator("button[value=reject]").is_visible():
        page.click(".drawer > summary")


def reject(page: Any) -> None:
    open_drawer(page)
    with leads_on(page):
        page.click("button[value=reject]")


def test_link_page_form_in_browser_saves_changed_fields_as_an_edit(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    run = start("typed", amount=12.5, customer="Dana")
    interrupt = Interrupt.objects.get(run=run)
    url = create_review_link(interrupt.pk, name="Lena Roth").url
    for size, what in ((DESK, "desk"), (PHONE, "phone")):
        for scheme in ("light", "dark"):
            page = visit(url, viewport=size, color_scheme=scheme)
            picture(page, f"link-typed-{what}-{scheme}")
    assert "your decision is needed" in page.content()
    page.fill("[name='answer/amount']", "lots")
    with leads_on(page):
        page.click("button[value=approve]")
    assert "Not submitted." in page.content()
    picture(page, "link-typed-phone-error")
    page.fill("[name='answer/amount']", "10.5")
    with leads_on(page):
        page.click("button[value=approve]")
    assert "Thank you, Lena Roth" in page.content()
    picture(page, "link-done-phone-dark")
    decision = Decision.objects.get()
    assert (decision.type, decision.by_label, decision.via) == ("edit", "Lena Roth", "link")
    assert decision.value["amount"] == 10.5


@pytest.mark.promise("P22")
def test_link_page_in_browser_sends_no_referrer(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    interrupt = Interrupt.objects.get(run=start("approval", text="the news"))
    url = create_review_link(interrupt.pk, name="Lena Roth").url
    page = visit(url, viewport=PHONE)
    picture(page, "link-free-phone-light")
    requests: list[Any] = []
    page.on("request", lambda request: requests.append(request))
    page.reload()
    reject(page)
    assert "You rejected this request." in page.content()
    assert {request.resource_type for request in requests} >= {"document", "stylesheet"}
    assert not any(request.headers.get("referer") for request in requests)
    assert page.reload().status == 200
    assert Decision.objects.get().type == "reject"


def test_link_page_in_browser_with_blocked_cookies_saves_the_decision(
    chromium: Any, live_server: Any, start: Callable[..., Run], tmp_path: Path
) -> None:
    blocked = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (tmp_path / "Default").mkdir()
    (tmp_path / "Default" / "Preferences").write_text(json.dumps(blocked))
    interrupt = Interrupt.objects.get(run=start("approval", text="the news"))
    url = live_server.url + create_review_link(interrupt.pk, name="Lena Roth").url
    browser = chromium.browser_type.launch_persistent_context(
        tmp_path, executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
    )
    with closing(browser):
        page = browser.new_page()
        page.goto(f"{live_server.url}/admin/login/")
        assert browser.cookies() == []  # which the other page would set
        page.goto(url)
        reject(page)
        assert "You rejected this request." in page.content()
    assert Decision.objects.get().type == "reject"


def test_link_page_in_browser_after_secret_key_change_shows_typed_reason_for_resubmission(
    visit: Callable[..., Any], start: Callable[..., Run], settings: Any
) -> None:
    interrupt = Interrupt.objects.get(run=start("approval", text="the news"))
    page = visit(create_review_link(interrupt.pk, name="Lena Roth").url, viewport=PHONE)
    open_drawer(page)
    page.fill("[name=reason]", "The figures are of last year.")
    settings.SECRET_KEY = "another, with no fallbacks"
    reject(page)
    assert "Your session could not be verified." in page.content()
    picture(page, "link-unsigned-phone-light")
    reject(page)
    assert "You rejected this request." in page.content()
    assert Decision.objects.get().reason == "The figures are of last year."


def test_link_page_in_browser_after_database_outage_resubmits_typed_reason(
    visit: Callable[..., Any], start: Callable[..., Run], settings: Any
) -> None:
    interrupt = Interrupt.objects.get(run=start("approval", text="the news"))
    page = visit(create_review_link(interrupt.pk, name="Lena Roth").url, viewport=PHONE)
    open_drawer(page)
    page.fill("[name=reason]", "The figures\nare of <last> year.")
    gone = OperationalError("gone")
    with mock.patch("hitl_django.contrib.links.services.resolve_link", side_effect=gone):
        reject(page)
        assert "This page is temporarily unavailable" in page.content()
        picture(page, "link-away-phone-light")
    with leads_on(page):
        page.get_by_text("Submit again").click()
    assert "You rejected this request." in page.content()
    assert Decision.objects.get().reason.split()[-2:] == ["<last>", "year."]


@pytest.mark.any_database
def test_link_page_in_browser_fits_a_phone(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    interrupt = Interrupt.objects.get(run=start("typed", amount=12.5, customer="D" * 300))
    page = visit(create_review_link(interrupt.pk, name="Lena Roth").url, viewport=PHONE)
    boxes = [button.bounding_box() for button in page.query_selector_all(".bar > *")]
    open_drawer(page)
    boxes += [button.bounding_box() for button in page.query_selector_all(".drawer .button")]
    assert len(boxes) == 4
    for box in boxes:
        assert box["height"] >= 44
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    for part in page.query_selector_all("main, main > *"):
        box = part.bounding_box()
        assert box is None or box["width"] <= PHONE["width"]
    picture(page, "link-long-phone-light")


def test_link_page_of_revoked_link_shows_revoked_without_the_request(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    interrupt = Interrupt.objects.get(run=start("approval", text="the news"))
    link = create_review_link(interrupt.pk, name="Lena Roth")
    revoke_link(link.id)
    page = visit(link.url, viewport=PHONE, color_scheme="dark")
    assert "This link was revoked" in page.content()
    assert "the news" not in page.content()
    picture(page, "link-revoked-phone-dark")
