"""The demo's start page and chat in a browser.

In the chat, an agent replies, waits for a review in the admin, and continues.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache

from hitl_django import services
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry.registry import hide_graphs
from hitl_django.models import Interrupt
from project import people
from project.graphs import support
from tests.browser.conftest import (  # noqa: F401
    PASSWORD,
    chromium,
    leads_on,
    live_server,
    log_in,
    site,
    wait_until,
    work,
)
from tests.browser.screenshots import DIRECTORY
from tests.browser.test_accessibility import WAYS, faults
from tests.browser.test_layout import LOOKS
from tests.browser.test_reviewing import button

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

REFUND = 'refund(order: "A-7", cents: 4990)'


class Speech:
    """Pauses the model before a word until the test has seen the previous words."""

    def __init__(self) -> None:
        self.words = 0
        self.stops_before = 0
        self.goes_on = threading.Event()

    def stop_before(self, word: int) -> None:
        self.words, self.stops_before = 0, word
        self.goes_on.clear()

    def pause(self, seconds: float) -> None:
        self.words += 1
        if self.words == self.stops_before:
            assert self.goes_on.wait(60)


@pytest.fixture
def speech(monkeypatch: pytest.MonkeyPatch) -> Speech:
    made = Speech()
    monkeypatch.setattr(support, "sleep", made.pause)
    monkeypatch.setattr(message_buffer, "SECONDS", 0)  # each word is stored immediately
    return made


@pytest.fixture
def demo(settings: Any, db: None) -> Iterator[None]:
    """Set up the demo's pages, users and agent, without a worker."""
    cache.clear()
    settings.ROOT_URLCONF = "project.urls"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [ROOT / "templates"]}]
    settings.STATICFILES_DIRS = [ROOT / "project" / "static"]
    settings.HITL = {
        "DISPATCH": "hitl_django.testing.CollectingDispatcher",
        "EVENT_POLL_SECONDS": 0.02,
    }
    people.create()
    for user in get_user_model().objects.all():
        user.set_password(PASSWORD)
        user.save()
    with hide_graphs():
        register_langgraph("support", title="Support")(support.build_support)
        yield


def ask(page: Any, words: str) -> None:
    page.goto("/chat/")
    page.get_by_label("Your message").fill(words)
    with page.expect_response(lambda response: response.url.endswith("/runs/stream")):
        page.get_by_role("button", name="Send").click()


def test_demo_chat_replies_then_waits_for_review_and_continues_after_approval(
    demo: None,
    log_in: Callable[..., Any],  # noqa: F811
    speech: Speech,
    work: Callable[[], None],  # noqa: F811
) -> None:
    olga, rita = log_in("olga"), log_in("rita")
    olga.set_default_timeout(12_000)
    rita.set_default_timeout(12_000)
    speech.stop_before(4)
    ask(olga, "Order A-7 is broken.")
    work()
    olga.get_by_text("Let me look", exact=True).wait_for()  # while the model is still writing
    speech.goes_on.set()
    olga.get_by_text(f"Waiting for review: {REFUND}").wait_for()
    assert olga.locator("#log li").count() == 4

    speech.stop_before(3)
    rita.goto(f"/admin/hitl_django/reviewitem/{Interrupt.objects.get().pk}/change/")
    with leads_on(rita):
        button(rita, "Approve").click()
    work()
    olga.get_by_text("The agent is working").wait_for()
    olga.locator("#log li.ai").get_by_text("Order A-7:", exact=True).wait_for()
    speech.goes_on.set()
    olga.locator("#log li.ai").get_by_text("Order A-7: 49.90 EUR refunded.").wait_for()
    wait_until(olga, "document.getElementById('status').textContent === ''")
    said = olga.locator("#log li").all_inner_texts()
    assert len(said) == 6, said
    olga.reload()
    olga.locator("#log li").nth(5).wait_for()
    assert olga.locator("#log li").all_inner_texts() == said


def test_demo_chat_shows_answer_of_run_that_resumes_and_ends_between_polls(
    demo: None,
    log_in: Callable[..., Any],  # noqa: F811
    speech: Speech,
    work: Callable[[], None],  # noqa: F811
) -> None:
    olga = log_in("olga")
    olga.set_default_timeout(12_000)
    ask(olga, "Order A-7 is broken.")
    work()
    olga.get_by_text(f"Waiting for review: {REFUND}").wait_for()
    olga.route("**/threads/*", lambda route: route.abort())
    services.decide(Interrupt.objects.get().pk, "approve")
    work()
    olga.unroute("**/threads/*")
    olga.locator("#log li.ai").get_by_text("Order A-7: 49.90 EUR refunded.").wait_for()
    wait_until(olga, "document.getElementById('status').textContent === ''")


@pytest.mark.parametrize("look", LOOKS)
def test_demo_chat_page_fits_the_viewport(
    look: str,
    demo: None,
    log_in: Callable[..., Any],  # noqa: F811
    speech: Speech,
    work: Callable[[], None],  # noqa: F811
) -> None:
    page = log_in("olga", **LOOKS[look])
    ask(page, "Order A-7 is broken.")
    work()
    page.get_by_text("Waiting for review").wait_for()
    width = page.viewport_size["width"]
    if folder := os.environ.get(DIRECTORY):
        page.screenshot(path=Path(folder) / f"chat-{look}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("options", WAYS, ids=["desktop, light", "phone, dark"])
def test_demo_start_page_logs_in_with_one_click_and_has_no_axe_violations(
    options: dict[str, Any],
    demo: None,
    settings: Any,
    chromium: Any,  # noqa: F811
    site: str,  # noqa: F811
) -> None:
    settings.DEBUG = True
    for user in get_user_model().objects.all():
        user.set_password(people.PASSWORD)
        user.save()
    context = chromium.new_context(base_url=site, **options)
    page = context.new_page()
    page.goto("/")
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.get_by_role("button", name="Rita Meyer, reviewer").click()
    page.wait_for_url("**/reviewitem/")
    assert "rita" in page.content()
    page.goto("/chat/")
    assert faults(page) == []
    page.get_by_role("button", name="Log in as Olga Brandt").click()
    page.get_by_label("Your message").wait_for()
    context.close()
