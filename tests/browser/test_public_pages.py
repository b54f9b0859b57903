"""Pages for people without login, and the admin pages of review links, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from hitl_django.contrib.links.services import create_review_link, revoke_link
from hitl_django.contrib.notifications.decision_links import list_decision_urls
from hitl_django.contrib.notifications.preferences import make_unsubscribe_url
from hitl_django.contrib.notifications.topics import NotificationTopic
from hitl_django.models import Decision, Interrupt, Run

from .conftest import PASSWORD, leads_on
from .scenes import people
from .test_accessibility import LOOKS, faults

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BRAND = {"name": "Fernweh Supply", "accent": "#0b6b57"}
WINDOWS = pytest.mark.parametrize(
    "window",
    [
        {"viewport": {"width": 1440, "height": 900}},
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    ],
    ids=["desktop, light", "phone, dark"],
)


@pytest.fixture(autouse=True)
def branded(start: Callable[..., Run], settings: Any, live_server: Any) -> None:
    settings.HITL = {
        **settings.HITL,
        "BRAND": BRAND,
        "SITE_URL": live_server.url,
        "EMAIL_DECISION_SECONDS": 3600,
    }


@LOOKS
def test_public_pages_have_no_axe_violations_and_fit_the_window(
    start: Callable[..., Run], log_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    reviewer, _ = people(PASSWORD)
    page = log_in("rita", **options)
    reviewer.refresh_from_db()
    reviewer.email = "rita@shop.example"
    reviewer.save()
    typed = Interrupt.objects.get(run=start("typed", amount=12.5, customer="Dana"))
    news = Interrupt.objects.get(run=start("approval", text="the news"))
    urls = list_decision_urls(news, reviewer)
    found = {}

    def look(name: str) -> None:
        found[name] = faults(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= options["viewport"]["width"], name

    for item, name in ((typed, "typed"), (news, "free")):
        page.goto(create_review_link(item.pk, name="Lena", by=reviewer).url)
        assert "Fernweh Supply" in page.inner_text(".brand")
        closed = page.locator("details:not([open]) > summary")
        while closed.count():
            closed.first.click()
        look(name)
    page.goto(urls["approve"])
    look("approve by email")
    page.goto(urls["reject"])
    look("reject by email")
    with leads_on(page):
        page.click("button[name=decision]")
    assert "Your decision has been saved" in page.inner_text("main")
    look("decided by email")
    page.goto(urls["approve"])
    look("closed")
    page.goto(urls["approve"][:-6] + "x/")
    look("unknown")
    link = create_review_link(typed.pk, name="Lena", by=reviewer)
    revoke_link(link.id, by=reviewer)
    page.goto(link.url)
    look("revoked")
    url = make_unsubscribe_url(reviewer, NotificationTopic.REQUESTED)
    assert url is not None
    page.goto(url)
    look("unsubscribe")
    with leads_on(page):
        page.locator("main button").first.click()
    look("unsubscribed")
    assert {name: said for name, said in found.items() if said} == {}
    assert Decision.objects.get().via == "email"


def test_brand_color_is_applied_to_public_pages(
    start: Callable[..., Run], log_in: Callable[..., Any]
) -> None:
    reviewer, _ = people(PASSWORD)
    item = Interrupt.objects.get(run=start("approval", text="the news"))
    page = log_in("rita")
    page.goto(create_review_link(item.pk, name="Lena", by=reviewer).url)
    style = "getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()"
    assert page.evaluate(style) == BRAND["accent"]


@WINDOWS
def test_new_review_link_is_copied_by_its_button(
    start: Callable[..., Run], log_in: Callable[..., Any], window: dict[str, Any]
) -> None:
    people(PASSWORD)
    item = Interrupt.objects.get(run=start("approval", text="the news"))
    page = log_in("rita", **window)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/admin/hitl_links/reviewlink/add/?interrupt={item.pk}")
    assert faults(page) == []
    page.fill("[name=name]", "Lena Roth")
    with leads_on(page):
        page.get_by_role("button", name="Create link").click()
    assert faults(page) == []
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied.").wait_for()
    url = page.locator("[data-hitl-link]").input_value()
    assert page.evaluate("navigator.clipboard.readText()") == url
    assert urlsplit(url).path.startswith("/hitl/links/")
    assert page.evaluate("document.documentElement.scrollWidth") <= window["viewport"]["width"]
