"""Accessibility of all pages with keyboard and screen reader, checked by axe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import OperationalError

from hitl_django import services
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Interrupt, Run

from .conftest import PASSWORD, leads_on
from .scenes import people, scenes
from .test_reviewing import button, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

WAYS = [
    {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
]
#: A phone and a wide window, light and dark.
LOOKS = pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
        for width, height in ((390, 844), (1280, 900), (1440, 900))
        for scheme in ("light", "dark")
    ],
    ids=lambda options: f"{options['viewport']['width']}, {options['color_scheme']}",
)


@pytest.fixture
def everybody(transactional_db: None) -> str:
    user = get_user_model().objects.create_user("eva", password=PASSWORD, is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label__startswith="hitl_")
    )
    return "eva"


def faults(page: Any) -> list[str]:
    """Run axe on the page and return its violations with their elements.

    Elements that Django's admin adds to every page are excluded.
    """
    context = {"exclude": [["#header"], [".breadcrumbs"], ["#searchbar"], ["#nav-sidebar"]]}
    found = Axe().run(page, context=context).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['html'][:200]}"
        for one in found
        for node in one["nodes"]
    ]


@LOOKS
def test_every_kind_of_request_page_has_no_axe_violations(
    start: Callable[..., Run], log_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    reviewer, other = people(PASSWORD)
    page = log_in("rita", **options)
    found = {}
    for name, address in scenes(reviewer, other):
        page.goto(address)
        # Open the menus without clicks, because an open menu may cover the next one.
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        found[name] = faults(page)
    item = Interrupt.objects.filter(status="pending", quorum=1)[0]
    page.goto(urlsplit(create_review_link(item.pk, name="Lena", by=reviewer).url).path)
    assert "Lena" in page.inner_text("body")
    found["of a link"] = faults(page)
    assert {name: said for name, said in found.items() if said} == {}


def test_every_page_shown_after_submitting_a_request_form_has_no_axe_violations(
    everybody: str,
    start: Callable[..., Run],
    log_in: Callable[..., Any],
    settings: Any,
) -> None:
    run = start("approval", text="the news")
    start("typed", customer="Dana", amount=120.0)
    item = Interrupt.objects.get(run=run)
    base = "/admin/hitl_django"
    page = log_in(everybody, **WAYS[1])
    found = {}

    def look(name: str) -> None:
        found[name] = faults(page)

    page.goto(f"{base}/reviewitem/")
    for tick in page.locator("[name=item]").all():
        tick.check()
    with leads_on(page):
        page.click(".hitl-bulk [value=approve]")
    page.wait_for_selector(".hitl-results [name=item]")
    look("several, to be confirmed")
    services.decide(item.pk, "reject", reason="Not now.")
    with leads_on(page):
        page.click(".hitl-bar .is-ok")
    page.wait_for_selector("#failed")
    look("several, decided")
    item = Interrupt.objects.get(run=start("approval", text="the weather"))
    page.goto(f"{base}/reviewitem/{item.pk}/change/")
    open_reason(page).fill("It will rain.")
    services.decide(item.pk, "reject", reason="Not now.")
    with leads_on(page):
        button(page, "Approve").click()
    page.wait_for_selector("#kept")
    look("somebody was faster")
    held = Interrupt.objects.get(run=start("approval", text="the tide"))
    services.claim(held.pk, by=get_user_model().objects.create_superuser("ravi"))
    page.goto(f"{base}/reviewitem/{held.pk}/change/")
    open_reason(page).fill("It will ebb.")
    page.goto(f"{base}/reviewitem/{held.pk}/change/")
    look("unsent text")
    with leads_on(page):
        button(page, "Approve").click()
    look("somebody holds it")
    page.goto(f"{base}/reviewitem/{held.pk}/change/")
    page.locator(".hitl-edit > summary").click()
    page.get_by_label("Text").fill("the ebb")
    look("changed")
    page.goto(f"{base}/reviewitem/{held.pk}/change/")
    with mock.patch("hitl_django.services.decide", side_effect=OperationalError("gone")):
        with leads_on(page):
            button(page, "Reject").click()
        page.wait_for_selector("text=Database unavailable")
    look("the database is away")
    page.goto(f"{base}/reviewitem/{held.pk}/change/")
    page.evaluate(
        "document.querySelectorAll('[name=csrfmiddlewaretoken]').forEach(e => e.value = 'x')"
    )
    with leads_on(page):
        button(page, "Approve").click()
    assert "Your submission was rejected" in page.inner_text("h1")
    look("not from this site")
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 2
    page.goto(f"{base}/run/{run.pk}/cancel/")
    look("cancel")
    page.fill("[name=reason]", "It is late.")
    page.evaluate(
        "document.querySelector('form.hitl-work').insertAdjacentHTML("
        "'beforeend', '<input type=hidden name=more>')"
    )
    with leads_on(page):
        page.click(".hitl-bar .is-bad-solid")
    page.wait_for_selector("#large")
    look("too large")
    assert {name: said for name, said in found.items() if said} == {}


def test_german_request_and_link_pages_have_no_axe_violations_and_fit_390_pixels(
    start: Callable[..., Run], log_in: Callable[..., Any], settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    reviewer, _ = people(PASSWORD)
    item = Interrupt.objects.get(run=start("approval", text="the news"))
    link = create_review_link(item.pk, name="Lena", by=reviewer)
    page = log_in("rita", **WAYS[1])
    found = {}
    services.decide(
        Interrupt.objects.get(run=start("approval", text="the sky")).pk, "approve", by=reviewer
    )
    for address in (
        "/admin/",
        "/admin/hitl_insights/spotcheck/reports/",
        "/admin/hitl_insights/spotcheck/",
        "/admin/hitl_django/reviewitem/",
        f"/admin/hitl_django/reviewitem/{item.pk}/change/",
        "/admin/hitl_links/reviewlink/",
        urlsplit(link.url).path,
    ):
        page.goto(address)
        assert page.get_attribute("html", "lang") == "de"
        found[address] = faults(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
    assert {address: said for address, said in found.items() if said} == {}
