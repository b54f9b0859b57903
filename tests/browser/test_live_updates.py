"""Updates of open pages without a reload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import services
from hitl_django.models import Interrupt, Run

from .conftest import leads_on
from .test_reviewing import WITHOUT_JAVASCRIPT, button, open_reason

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Run]


def open_interrupt(page: Any) -> None:
    page.goto(f"/admin/hitl_django/reviewitem/{Interrupt.objects.get().pk}/change/")


def test_request_page_open_in_two_browsers_names_the_other_viewer(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    rita, ravi = log_in("rita"), log_in("ravi")
    rita.clock.install()
    open_interrupt(rita)
    open_interrupt(ravi)
    ravi.get_by_text("Also viewing: rita.").wait_for()
    rita.clock.fast_forward(15_000)
    rita.get_by_text("Also viewing: ravi.").wait_for()


def test_request_page_announces_decision_of_another_user_and_preserves_typed_reason(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    rita, ravi = log_in("rita"), log_in("ravi")
    open_interrupt(rita)
    open_reason(rita).fill("I was about to say yes.")
    open_interrupt(ravi)
    with leads_on(ravi):
        button(ravi, "Reject").click()
    ravi.wait_for_selector(":is(.messagelist, .hitl-toast)")
    rita.get_by_text("ravi rejected this").wait_for()
    assert rita.locator("[name=reason]").first.input_value() == "I was about to say yes."
    with leads_on(rita):
        rita.get_by_role("link", name="View the current version").click()
    rita.get_by_role("heading", name="ravi rejected this").wait_for()


def test_request_page_without_javascript_shows_no_live_updates(
    log_in: Callable[..., Any], start: Start
) -> None:
    run = start("typed", customer="Dana", amount=120.0)
    page = log_in(**WITHOUT_JAVASCRIPT)
    open_interrupt(page)
    services.cancel(run.pk)
    assert not page.get_by_text("View the current version").is_visible()


LIST = "/admin/hitl_django/reviewitem/"
#: Stores each URL that a page's script requested, with the response.
KEEP_ANSWERS = """
    const ask = window.fetch;
    window.answers = [];
    window.fetch = (...request) => {
        const asked = ask(...request);
        window.answers.push(asked.then((answer) => answer.clone().text(), () => ""));
        return asked;
    };
"""


def test_queue_announces_new_requests_and_shows_them_after_click(
    log_in: Callable[..., Any], start: Start
) -> None:
    for customer in ("Dana", "Kim"):
        start("typed", customer=customer, amount=120.0)
    rita, ravi = log_in("rita"), log_in("ravi")
    rita.clock.install()
    rita.goto(LIST)
    assert rita.title().startswith("(2) Review queue |")
    row = rita.locator(".hitl-row").filter(has_text="Dana")
    row.get_by_role("checkbox").check()
    below = rita.locator(".hitl-row").filter(has_text="Kim").bounding_box()
    ravi.goto(LIST)
    with leads_on(ravi):
        ravi.get_by_role("link", name="Refund Dana?").click()
    with leads_on(ravi):
        button(ravi, "Reject").click()
    start("typed", customer="Lena", amount=120.0)
    start("typed", customer="Noor", amount=120.0)
    rita.clock.fast_forward(20_000)
    row.get_by_text("ravi rejected this").wait_for()
    # A decided row can't be selected anymore, and the other rows stay in place.
    assert row.get_by_role("checkbox").is_disabled()
    assert not row.get_by_role("checkbox").is_checked()
    rest = rita.locator(".hitl-row").filter(has_text="Kim")
    assert rest.bounding_box() == below
    rita.get_by_text("2 new").wait_for()
    assert rita.title().startswith("(3) Review queue |")
    assert rita.get_by_role("link", name="Open 3").is_visible()
    assert rita.get_by_text("3 pending requests").is_visible()
    with leads_on(rita):
        rita.get_by_role("link", name="Show new requests", exact=True).click()
    rows = rita.locator(".hitl-row")
    assert [rows.filter(has_text=name).count() for name in ("Dana", "Kim", "Lena", "Noor")] == [
        0, 1, 1, 1,
    ]  # fmt: skip


def test_queue_polls_less_often_when_hidden_and_stops_after_logout(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in()
    page.clock.install()
    page.add_init_script(KEEP_ANSWERS)

    def pass_seconds(seconds: int) -> int:
        before = page.evaluate("answers.length")
        for _part in range(0, seconds, 15):
            page.clock.run_for(15_000)
            page.evaluate("Promise.all(answers).then(() => 0)")
        return page.evaluate("answers.length") - before

    page.goto(LIST)
    assert 2 <= pass_seconds(60) <= 5
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    start("typed", customer="Kim", amount=120.0)
    assert 1 <= pass_seconds(300) <= 5
    assert page.title().startswith("(2) Review queue |")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: false, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.context.route("**/news/**", lambda route: route.fulfill(status=500))
    # The delay doubles after each failure.
    assert 1 <= pass_seconds(240) <= 5
    page.context.unroute("**/news/**")
    page.context.clear_cookies()
    pass_seconds(300)
    assert pass_seconds(300) == 0


def test_queue_without_javascript_shows_count_in_title_and_no_live_updates(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in(**WITHOUT_JAVASCRIPT)
    page.goto(LIST)
    assert page.title().startswith("(1) Review queue |")
    assert page.locator("[data-hitl-watch]").inner_text() == ""
