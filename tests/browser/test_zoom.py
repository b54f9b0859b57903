"""The queue and a request at 200 % and at 400 % zoom: every decision is reachable.

A browser that shows a page at 200 % halves the window: 1280 × 800 pixels become 640 × 400.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.models import Decision

from .conftest import PASSWORD, leads_on
from .scenes import REQUEST, TEXT, ask, people
from .test_layout import is_in_sight
from .test_reviewing import open_drawer, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

ZOOMED: dict[str, Any] = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}
#: A window of 1280 × 1024 pixels at 400 %.
NARROW: dict[str, Any] = {"viewport": {"width": 320, "height": 256}}
WINDOWS = pytest.mark.parametrize(
    "window",
    [ZOOMED, NARROW, {**ZOOMED, "java_script_enabled": False}],
    ids=["200 %", "400 %", "200 % without JavaScript"],
)
QUEUE = "/admin/hitl_django/reviewitem/"
PAYLOAD = {
    "title": "Send the letter about order 2026-0871 to Kletterwerk GmbH in Freiburg, 8,420.00 EUR?",
    "why": "The parcel was late.",
    "text": TEXT,
    "carrier": "DHL",
    "reference": "DE89370400440532013000DE89370400440532013000",
}


def scrolls_sideways(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def cut_texts(page: Any, selector: str) -> list[str]:
    """Return the texts of the elements whose box is smaller than their content."""
    return list(
        page.evaluate(
            """selector => [...document.querySelectorAll(selector)]
                .filter(e => e.scrollWidth > e.clientWidth + 1
                    || e.scrollHeight > e.clientHeight + 4)
                .map(e => e.innerText)""",
            selector,
        )
    )


def is_reached(page: Any, element: Any) -> bool:
    """Return whether a focused element is fully visible and in front of all others."""
    element.focus()
    return is_in_sight(page, element)


@WINDOWS
def test_queue_page_in_zoomed_or_narrow_window_shows_whole_titles_and_reachable_bulk_buttons(
    log_in: Callable[..., Any], start: Callable[..., Any], window: dict[str, Any]
) -> None:
    people(PASSWORD)
    for _ in range(12):
        ask("plain", payload=PAYLOAD)
    page = log_in(**window)
    page.goto(QUEUE)
    assert not scrolls_sideways(page)
    assert cut_texts(page, "[data-hitl-row] .hitl-row-title a") == []
    rows = page.locator("[data-hitl-row]")
    assert rows.count() == 12
    for row in (rows.first, rows.last):
        assert is_reached(page, row.get_by_role("link").first)
    assert is_reached(page, page.get_by_role("button", name="Review next"))
    rows.last.locator("[name=item]").check()
    assert not scrolls_sideways(page)
    assert is_reached(page, rows.last.locator("[name=item]"))
    for name in ("Approve…", "Reject…"):
        button = page.locator(".hitl-bulk").get_by_role("button", name=name)
        assert is_reached(page, button), name
    with leads_on(page):
        page.locator(".hitl-bulk").get_by_role("button", name="Reject…").click()
    assert not scrolls_sideways(page)
    confirm = page.get_by_role("button", name="Reject").last
    assert is_reached(page, confirm)


@WINDOWS
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_request_page_in_zoomed_or_narrow_window_shows_all_controls_for_a_decision(
    log_in: Callable[..., Any], start: Callable[..., Any], window: dict[str, Any], decision: str
) -> None:
    people(PASSWORD)
    item = ask("typed", customer="Dana K.", amount=120.0)
    page = log_in(**window)
    page.goto(f"{QUEUE}{item.pk}/change/")
    assert not scrolls_sideways(page)
    approve = page.get_by_role("button", name="Approve")
    reject = page.locator(".hitl-drawer > summary").first
    assert is_in_sight(page, approve)
    assert is_in_sight(page, reject)
    for field in page.locator(".hitl-form :is(input, textarea, select):visible").all():
        assert is_reached(page, field), field.get_attribute("name")
    if decision == "approve":
        assert is_reached(page, approve)
    else:
        assert is_reached(page, open_reason(page))
        assert not scrolls_sideways(page)
        approve = page.get_by_role("button", name="Reject", exact=True)
        assert is_reached(page, approve)
    with leads_on(page):
        approve.click()
    assert Decision.objects.get().type == decision


@WINDOWS
def test_request_page_with_long_texts_in_zoomed_or_narrow_window_cuts_no_text(
    log_in: Callable[..., Any], start: Callable[..., Any], window: dict[str, Any]
) -> None:
    people(PASSWORD)
    item = ask("plain", payload=PAYLOAD)
    page = log_in(**window)
    page.goto(f"{QUEUE}{item.pk}/change/")
    assert not scrolls_sideways(page)
    assert cut_texts(page, "h1, .hitl-why, .hitl-facts dd") == []


@WINDOWS
def test_choices_and_buttons_of_tool_call_request_are_reachable_in_zoomed_or_narrow_window(
    log_in: Callable[..., Any], start: Callable[..., Any], window: dict[str, Any]
) -> None:
    people(PASSWORD)
    item = ask("plain", payload=REQUEST)
    page = log_in(**window)
    page.goto(f"{QUEUE}{item.pk}/change/")
    assert not scrolls_sideways(page)
    for choice in page.locator(".hitl-call input[type=radio]").all():
        choice.focus()
        label = choice.locator("xpath=ancestor::label | following-sibling::label").first
        assert is_in_sight(page, label), label.inner_text()
    for button in page.locator(".hitl-bar button:visible, .hitl-bar summary:visible").all():
        assert is_reached(page, button), button.inner_text()
    open_drawer(page, ".hitl-drawer")
    assert not scrolls_sideways(page)
