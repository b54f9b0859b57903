"""The next request replaces the decided one without a full page load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session

from hitl_django import services
from hitl_django.models import Comment, Decision, Interrupt, Run

from .conftest import leads_on
from .test_item import open_interrupt
from .test_reviewing import WITHOUT_JAVASCRIPT, button, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

Start = Callable[..., Run]
NAMES = ("Dana", "Sam", "Kim")
#: Lost if the browser loads another document.
STAYS = "window.isSameDocument = true"


@pytest.fixture
def first(start: Start) -> Interrupt:
    for name in NAMES:
        start("typed", customer=name, amount=120.0)
    return Interrupt.objects.order_by("created_at")[0]


@pytest.fixture
def page(log_in: Callable[..., Any], first: Interrupt) -> Any:
    opened = log_in()
    with opened.expect_event("requestfinished", lambda request: "/prefetch/" in request.url):
        open_interrupt(opened, first)
    opened.evaluate(STAYS)
    return opened


def heading(page: Any) -> str:
    return str(page.inner_text("h1").strip())


def is_same_document(page: Any) -> bool:
    return bool(page.evaluate("window.isSameDocument === true"))


def requests_of(page: Any) -> list[str]:
    found: list[str] = []
    page.on(
        "request",
        lambda request: found.append(f"{request.method} {request.url.split('?')[0]}"),
    )
    return found


def decide(page: Any, name: str = "Approve") -> None:
    with leads_on(page):
        button(page, name).click()


def test_decision_shows_the_prefetched_request_without_loading_a_page(page: Any) -> None:
    second = Interrupt.objects.get(title="Refund Sam?")
    sent = requests_of(page)
    decide(page)
    assert is_same_document(page)
    assert heading(page) == page.title().split(" | ")[0] == "Refund Sam?"
    assert str(second.pk) in page.url
    pages = [one for one in sent if one.endswith("/change/")]
    assert [one.split()[0] for one in pages] == ["POST"]
    assert "You approved “Refund Dana?”." in page.inner_text(".hitl-toast")
    assert "Claimed by you" in page.locator(".hitl-claim").inner_text()
    second.refresh_from_db()
    assert second.claimed_by.username == "rita"


def test_page_replaced_without_reload_moves_focus_to_the_title_and_announces_the_result(
    page: Any,
) -> None:
    # Screen readers announce changes of a region that stays in the document.
    page.evaluate("window.messages = document.querySelector('[data-hitl-messages]')")
    decide(page)
    assert page.evaluate("document.activeElement.localName") == "h1"
    assert "You approved “Refund Dana?”." in page.evaluate("messages.innerText")
    assert page.evaluate("messages.ariaLive") == "polite"


def test_keyboard_shortcuts_skip_decide_and_undo_on_pages_replaced_without_reload(
    page: Any, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 600}
    with leads_on(page):
        page.keyboard.press("s")
    assert heading(page) == "Refund Sam?"
    page.keyboard.press("a")
    with leads_on(page):
        page.keyboard.press("Enter")
    assert heading(page) == "Refund Dana?"
    assert is_same_document(page)
    page.keyboard.press("r")
    page.keyboard.type("Too late.")
    with leads_on(page):
        page.keyboard.press("Control+Enter")
    assert heading(page) == "Refund Kim?"
    assert is_same_document(page)
    with leads_on(page):
        page.keyboard.press("z")
    assert heading(page) == "Refund Dana?"
    assert open_reason(page).input_value() == "Too late."
    types = Decision.objects.filter(effective=True).values_list("type", flat=True)
    assert sorted(types) == ["approve"]


def test_last_decision_shows_the_queue_without_loading_a_page(page: Any) -> None:
    for _name in NAMES:
        decide(page)
    assert "No pending requests." in page.inner_text(".hitl-queue")
    assert page.url.endswith("/reviewitem/")
    assert is_same_document(page)
    assert Decision.objects.count() == len(NAMES)


def test_back_button_after_page_was_replaced_without_reload_opens_the_decided_request(
    page: Any, first: Interrupt
) -> None:
    decide(page)
    with page.expect_event("load"):
        page.go_back()
    assert str(first.pk) in page.url
    assert "You approved this" in page.inner_text("#content")
    with page.expect_event("load"):
        page.go_forward()
    assert heading(page) == "Refund Sam?"


def test_page_replaced_without_reload_restores_draft_and_keeps_unsent_comment_of_previous_page(
    page: Any, first: Interrupt
) -> None:
    page.get_by_label("Comment", exact=True).fill("Half a comment")
    decide(page)
    open_reason(page).fill("Half a thought")
    page.goto("/admin/")
    open_interrupt(page, Interrupt.objects.get(title="Refund Sam?"))
    assert open_reason(page).input_value() == "Half a thought"
    open_interrupt(page, first)
    assert page.get_by_label("Comment", exact=True).input_value() == "Half a comment"
    assert not Comment.objects.exists()


def test_request_changed_since_the_prefetch_is_loaded_again(page: Any) -> None:
    second = Interrupt.objects.get(title="Refund Sam?")
    Interrupt.objects.filter(pk=second.pk).update(version=2, title="Refund Sam 60?")
    decide(page)
    assert heading(page) == "Refund Sam 60?"
    assert is_same_document(page)
    decide(page)
    assert Decision.objects.count() == 2


def test_request_claimed_since_the_prefetch_is_not_shown(page: Any, django_user_model: Any) -> None:
    ravi = django_user_model.objects.create_superuser("ravi")
    services.claim(Interrupt.objects.get(title="Refund Sam?").pk, by=ravi)
    decide(page)
    assert heading(page) == "Refund Kim?"
    assert is_same_document(page)


def test_invalid_response_shows_the_error_and_entered_values_without_loading_a_page(
    page: Any,
) -> None:
    page.get_by_label("Amount").fill("a lot")
    open_reason(page).fill("They deserve it.")
    decide(page)
    assert is_same_document(page)
    assert "Not submitted." in page.get_by_role("alert").inner_text()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "alert"
    assert page.get_by_label("Amount").input_value() == "a lot"
    assert page.locator("[name=reason]").first.input_value() == "They deserve it."
    page.get_by_label("Amount").fill("80")
    decide(page)
    assert Decision.objects.get().value["amount"] == 80
    assert Decision.objects.get().reason == "They deserve it."


def test_expired_session_shows_the_page_with_the_typed_text(page: Any) -> None:
    open_reason(page).fill("Half a thought")
    Session.objects.all().delete()
    decide(page, "Reject")
    assert heading(page) == "Your decision was not recorded"
    assert page.get_by_label("Reason").input_value() == "Half a thought"
    with page.expect_event("load"):
        page.get_by_role("link", name="Log in").click()
    assert page.locator("#id_username").is_visible()
    assert not Decision.objects.exists()


def test_decision_with_lost_response_stays_on_the_page_and_is_stored_once_by_retry(
    page: Any,
) -> None:
    open_reason(page).fill("Half a thought")

    def lose(route: Any) -> None:
        if route.request.method == "POST":
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/change/", lose)
    button(page, "Reject").click()
    assert page.get_by_role("alert").inner_text().startswith("No connection.")
    assert page.locator("[name=reason]").first.input_value() == "Half a thought"
    page.unroute("**/change/")
    with leads_on(page):
        button(page, "Retry").click()
    assert "You rejected “Refund Dana?”." in page.inner_text(".hitl-toast")
    assert Decision.objects.get().reason == "Half a thought"


def test_second_click_during_a_decision_sends_nothing(page: Any) -> None:
    sent = requests_of(page)
    with leads_on(page):
        page.evaluate(
            "(() => { const button = document.querySelector('.hitl-bar [value=approve]');"
            " button.click(); button.click(); })()"
        )
    assert len([one for one in sent if one.startswith("POST")]) == 1
    assert Decision.objects.count() == 1


def test_page_without_javascript_loads_the_next_request(
    log_in: Callable[..., Any], first: Interrupt
) -> None:
    page = log_in(**WITHOUT_JAVASCRIPT)
    open_interrupt(page, first)
    decide(page)
    assert heading(page) == "Refund Sam?"
    assert "You approved “Refund Dana?”." in page.inner_text(".hitl-toast")
