"""Layout of every page on desktop and phone, light and dark; screenshots on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from hitl_django import services
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.spot_checks import record_spot_check
from hitl_django.contrib.links.services import create_review_link

from .conftest import PASSWORD, leads_on, wait_until
from .scenes import ask, people, scenes
from .screenshots import DIRECTORY
from .test_reviewing import PHONE, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
#: Half as many pixels of a page on the same screen: 200 %.
ZOOMED: dict[str, Any] = {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2}
LOOKS = {
    "desk-light": DESK,
    "desk-dark": {**DESK, "color_scheme": "dark"},
    "phone-light": PHONE,
    "phone-dark": {**PHONE, "color_scheme": "dark"},
    "zoomed": ZOOMED,
    "1440": {"viewport": {"width": 1440, "height": 900}},
    "1600": {"viewport": {"width": 1600, "height": 900}},
}


def looking_back(reviewer: Any) -> list[tuple[str, str]]:
    """Return the pages other than those of requests. The reviewer's approval has a spot check."""
    base = "/admin/hitl_django"
    services.save_filter("Mine, or whoever's they are", {"show": "mine"}, shared=True, by=reviewer)
    item = ask("approval", text="the news")
    made = services.decide(item.pk, "approve", by=reviewer)
    look = SpotCheck.objects.create(interrupt=item, decision_id=made.id)
    record_spot_check(look.pk, True, by=None)
    return [
        ("index", "/admin/"),
        ("queue", f"{base}/reviewitem/"),
        ("queue-of-a-filter", f"{base}/reviewitem/?show=mine"),
        ("reports", "/admin/hitl_insights/spotcheck/reports/"),
        ("spot-checks", "/admin/hitl_insights/spotcheck/"),
        ("spot-check", f"/admin/hitl_insights/spotcheck/{look.pk}/change/"),
    ]


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_the_width_of_desktop_and_phone(
    log_in: Callable[..., Any], start: Callable[..., Any], look: str, settings: Any
) -> None:
    reviewer, other = people(PASSWORD)
    page = log_in("rita", **LOOKS[look])
    if look == "phone-dark":
        settings.LANGUAGE_CODE = "de"  # German texts are longer.
    shown = [*scenes(reviewer, other), *looking_back(reviewer)]
    wide = {}
    for name, url in shown:
        page.goto(url)
        closed = page.locator(":is(.hitl-edit, .hitl-fold:not([open]), .hitl-views) > summary")
        # An opened fold no longer matches, so the last one comes first.
        for summary in reversed(closed.all()):
            summary.click()
        page.evaluate("scrollTo(0, 0)")
        if folder := os.environ.get(DIRECTORY):
            page.screenshot(path=Path(folder) / f"{name}-{look}.png", full_page=True)
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    width = LOOKS[look]["viewport"]["width"]
    assert {name: found for name, found in wide.items() if found > width} == {}


def test_menus_in_the_wrapped_toolbar_of_a_phone_lie_within_the_window(
    log_in: Callable[..., Any], settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    item = ask("typed", customer="Dana K.", amount=120.0)
    get_user_model().objects.create_superuser("lead", password=PASSWORD)  # Can assign.
    page = log_in("lead", **PHONE)
    for number in range(2):
        page.goto(f"/admin/hitl_django/reviewitem/{item.pk}/change/")
        menu = page.locator(".hitl-qtools .hitl-menu").nth(number)
        menu.locator("summary").click()
        box = menu.locator(".hitl-pop").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["viewport"]["width"]


def test_select_all_checkbox_of_review_link_list_selects_and_deselects_all_rows(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    rita, _ = people(PASSWORD)
    item = ask("typed", customer="Dana K.", amount=120.0)
    for name in ("Lena", "Lars"):
        create_review_link(item.pk, name=name, by=rita)
    page = log_in("rita")
    page.goto("/admin/hitl_links/reviewlink/")
    page.check("#action-toggle")
    assert page.locator("#result_list .action-select:checked").count() == 2
    page.uncheck("#action-toggle")
    assert page.locator("#result_list .action-select:checked").count() == 0


DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}


def is_in_sight(page: Any, element: Any) -> bool:
    """Return whether an element is fully visible without scrolling, with nothing above it."""
    return bool(
        element.evaluate(
            """e => {
                const box = e.getBoundingClientRect();
                const at = document.elementFromPoint(box.x + box.width / 2, box.bottom - 2);
                return box.top >= 0 && box.bottom <= innerHeight && e.contains(at);
            }"""
        )
    )


def test_request_with_facts_and_form_fits_1280_by_800_without_scrolling(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    people(PASSWORD)
    item = ask("typed", customer="Dana K.", amount=120.0)
    page = log_in("rita", viewport={"width": 1280, "height": 800})
    page.goto(f"/admin/hitl_django/reviewitem/{item.pk}/change/")
    assert page.evaluate("document.documentElement.scrollHeight") <= 800
    parts = page.locator(".hitl-main, .hitl-bar").all()
    assert sum(len(part.inner_text().split()) for part in parts) <= 120


def test_decision_buttons_of_long_request_are_visible_without_scrolling(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    payload = {"title": "Read all of this?", **{f"line {n}": "words " * 20 for n in range(60)}}
    start("plain", payload=payload)
    page = log_in(**DESKTOP)
    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        page.get_by_role("link", name="Read all of this?").click()
    assert page.evaluate("scrollY") == 0
    assert is_in_sight(page, page.get_by_role("button", name="Approve", exact=True))
    assert is_in_sight(page, page.locator(".hitl-drawer > summary").first)
    reason = open_reason(page)
    reason.focus()
    assert is_in_sight(page, reason), "the bar hides no field that is written in"
    assert is_in_sight(page, page.get_by_role("button", name="Reject", exact=True))


def test_queue_list_is_shown_beside_request_on_wide_screens_only(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    for name in ("Dana", "Sam"):
        start("typed", customer=name, amount=120.0)
    page = log_in(**WIDE)
    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        page.get_by_role("link", name="Refund Dana?").click()
    beside = page.get_by_role("complementary", name="Review queue")
    with leads_on(page):
        beside.get_by_role("link", name="Refund Sam?").click()
    wait_until(page, "document.querySelector('h1').innerText === 'Refund Sam?'")
    assert page.get_by_text("2 of 2").is_visible()
    with leads_on(page):
        page.get_by_role("button", name="Hide list").click()
    page.get_by_role("button", name="Show list").wait_for()
    assert not page.get_by_role("link", name="Refund Dana?").is_visible()
    assert page.get_by_role("link", name="Previous").is_visible()
    with leads_on(page):
        page.get_by_role("button", name="Show list").click()
    page.get_by_role("link", name="Refund Dana?").wait_for()
    page.set_viewport_size(DESKTOP["viewport"])
    assert not page.get_by_role("link", name="Refund Dana?").is_visible()
