"""Somebody without an account, in a browser with no script, decides with a link."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl_django import services
from hitl_django.models import Decision, Interrupt, Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


@pytest.fixture
def visit(chromium: Any, live_server: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a window of its own, without scripts; a complaint fails the test."""
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
    """Keep what the page looks like, where somebody wants to look at it."""
    if folder := os.environ.get("TEST_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_a_typed_question_is_decided_with_a_form(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    run = start("typed", amount=12.5, customer="Dana")
    question = Interrupt.objects.get(run=run)
    url = services.make_link(question.pk, name="Lena Roth").url
    for size, what in ((DESK, "desk"), (PHONE, "phone")):
        for scheme in ("light", "dark"):
            page = visit(url, viewport=size, color_scheme=scheme)
            picture(page, f"link-typed-{what}-{scheme}")
    assert "you are asked to decide" in page.content()
    page.fill("[name='answer/amount']", "lots")
    page.click("button[value=approve]")
    assert "Nothing was sent yet" in page.content()
    picture(page, "link-typed-phone-error")
    page.fill("[name='answer/amount']", "10.5")
    page.click("button[value=approve]")
    assert "Thank you, Lena Roth" in page.content()
    picture(page, "link-done-phone-dark")
    decision = Decision.objects.get()
    assert (decision.type, decision.by_label, decision.via) == ("edit", "Lena Roth", "link")
    assert decision.value["amount"] == 10.5


def test_a_form_is_taken_although_no_other_site_is_told_where_it_came_from(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    question = Interrupt.objects.get(run=start("approval", text="the news"))
    url = services.make_link(question.pk, name="Lena Roth").url
    page = visit(url, viewport=PHONE)
    picture(page, "link-free-phone-light")
    origins = []
    page.on("request", lambda request: origins.append(request.headers.get("origin")))
    page.click("button[value=reject]")
    assert "You rejected it." in page.content()
    assert origins[0] not in (None, "null")
    assert page.reload().status == 200
    assert Decision.objects.get().type == "reject"


@pytest.mark.any_database
def test_on_a_phone_nothing_sticks_out_and_buttons_can_be_hit(
    visit: Callable[..., Any], start: Callable[..., Run]
) -> None:
    question = Interrupt.objects.get(run=start("typed", amount=12.5, customer="D" * 300))
    page = visit(services.make_link(question.pk, name="Lena Roth").url, viewport=PHONE)
    boxes = [button.bounding_box() for button in page.query_selector_all(".bar button")]
    assert boxes
    for box in boxes:
        assert box["height"] >= 44
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    for part in page.query_selector_all("main, main > *"):
        box = part.bounding_box()
        assert box is None or box["width"] <= PHONE["width"]
    picture(page, "link-long-phone-light")


def test_a_link_that_is_over_says_so(visit: Callable[..., Any], start: Callable[..., Run]) -> None:
    question = Interrupt.objects.get(run=start("approval", text="the news"))
    link = services.make_link(question.pk, name="Lena Roth")
    services.revoke_link(link.id)
    page = visit(link.url, viewport=PHONE, color_scheme="dark")
    assert "This link was taken back" in page.content()
    assert "the news" not in page.content()
    picture(page, "link-revoked-phone-dark")
