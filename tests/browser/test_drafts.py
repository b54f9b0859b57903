"""Drafts: typed text is kept for its author until the server confirms that it was saved.

Each failing submission leaves the page, so the browser drops the form and the next page has to
restore the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session

from hitl_django import services
from hitl_django.contrib.webhooks.services import create_webhook
from hitl_django.models import Comment, Decision, Interrupt, Run

from .conftest import PASSWORD, leads_on
from .test_item import open_interrupt
from .test_reviewing import WITHOUT_JAVASCRIPT, button

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

Start = Callable[..., Run]
LINE = "Unsaved text from"


def stored(page: Any) -> str:
    return str(page.evaluate("JSON.stringify(sessionStorage)"))


def typed(page: Any, text: str = "Half a thought") -> None:
    page.get_by_label("Reason:").fill(text)


def sign_in(page: Any, name: str) -> None:
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    with leads_on(page):
        page.click("[type=submit]")


def assert_it_comes_back(page: Any, text: str = "Half a thought") -> None:
    assert page.get_by_label("Reason:").input_value() == text
    assert LINE in page.locator(".hitl-bar").inner_text()


@pytest.fixture
def page(log_in: Callable[..., Any], start: Start) -> Any:
    start("typed", customer="Dana", amount=120.0)
    opened = log_in()
    open_interrupt(opened)
    return opened


class TestComesBack:
    def test_when_one_has_been_elsewhere_and_is_gone_once_it_is_recorded(self, page: Any) -> None:
        typed(page)
        page.goto("/admin/")
        open_interrupt(page)
        assert_it_comes_back(page)
        with leads_on(page):
            button(page, "Reject").click()
        assert Decision.objects.get().reason == "Half a thought"
        assert page.evaluate("sessionStorage.length") == 0

    def test_when_the_session_had_expired_at_the_click(self, page: Any) -> None:
        typed(page)
        Session.objects.all().delete()
        with leads_on(page):
            button(page, "Reject").click()
        sign_in(page, "rita")
        assert_it_comes_back(page)
        assert not Decision.objects.exists()

    def test_when_the_network_was_gone_at_the_click(self, page: Any) -> None:
        typed(page)
        page.context.set_offline(True)
        with page.expect_event("requestfailed"):
            button(page, "Reject").click()
        page.context.set_offline(False)
        open_interrupt(page)
        assert_it_comes_back(page)

    @pytest.mark.parametrize("status", [403, 409, 500, 502])
    def test_when_the_answer_was_an_error(self, page: Any, status: int) -> None:
        typed(page)
        page.route(
            "**/change/",
            lambda route: (
                route.fulfill(status=status, body="No.")
                if route.request.method == "POST"
                else route.continue_()
            ),
        )
        with leads_on(page):
            button(page, "Reject").click()
        open_interrupt(page)
        assert_it_comes_back(page)

    def test_when_it_had_to_be_put_right_and_then_was_left(self, page: Any) -> None:
        typed(page)
        page.get_by_label("Amount:").fill("a lot")
        with leads_on(page):
            button(page, "Approve").click()
        assert "Enter a number" in page.locator(".form-row.errors").inner_text()
        # What came back with the page is in its fields, and nothing unsent besides.
        assert LINE not in page.inner_text("#content")
        page.goto("/admin/")
        open_interrupt(page)
        assert_it_comes_back(page)
        assert page.get_by_label("Amount:").input_value() == "a lot"

    def test_with_what_was_chosen_as_well(self, log_in: Callable[..., Any], start: Start) -> None:
        schema = {
            "type": "object",
            "properties": {
                "how": {"enum": ["by post", "by hand"]},
                "to": {"type": "array", "items": {"enum": ["Dana", "Sam"]}},
                "fast": {"type": "boolean"},
            },
        }
        item = Interrupt.objects.get(run=start("approval", text="the news"))
        Interrupt.objects.filter(pk=item.pk).update(
            response_schema=schema, allowed_decisions=["respond"], dialect="raw"
        )
        page = log_in()
        open_interrupt(page)
        controls = "#content form [name^=answer]"
        read = f"[...document.querySelectorAll('{controls}')].map(e => [e.value, e.checked])"
        page.evaluate(
            f"""[...document.querySelectorAll('{controls}')].forEach(field => {{
                if (field.options) field.selectedIndex = field.options.length - 1;
                else if (field.matches('[type=checkbox], [type=radio]')) field.checked = true;
            }})"""
        )
        before = page.evaluate(read)
        page.goto("/admin/")
        open_interrupt(page)
        assert page.evaluate(read) == before
        assert LINE in page.inner_text(".hitl-bar")

    def test_to_be_copied_where_the_interrupt_has_changed_or_is_closed(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        item = Interrupt.objects.get(run=start("typed", customer="Dana", amount=120.0))
        page = log_in()
        open_interrupt(page)
        typed(page, "<b>Half</b> a thought")
        page.goto("/admin/")
        Interrupt.objects.filter(pk=item.pk).update(version=2)
        open_interrupt(page)
        assert page.get_by_label("Reason:").input_value() == ""
        assert LINE in page.inner_text(".hitl-bar")
        assert "<b>Half</b> a thought" in page.inner_text("section[aria-labelledby=kept]")
        services.decide(item.pk, "approve")
        open_interrupt(page)
        assert "<b>Half</b> a thought" in page.inner_text("#content")
        button(page, "Discard").click()
        open_interrupt(page)
        assert "a thought" not in page.inner_text("#content")


def test_a_line_says_of_when_it_is_and_discards_it(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in(locale="de-DE")
    open_interrupt(page)
    typed(page)
    page.get_by_label("Amount:").fill("99")
    page.goto("/admin/")
    open_interrupt(page)
    line = page.locator(".hitl-unsent")
    assert line.get_attribute("role") == "status"
    assert ":" in line.locator("time").inner_text()
    assert page.get_by_text("Original: 120.0").is_visible()
    button(page, "Discard").click()
    assert line.count() == 0
    assert page.get_by_label("Reason:").input_value() == ""
    assert page.get_by_label("Amount:").input_value() == "120.0"
    assert not page.get_by_text("Original: 120.0").is_visible()
    # The focus is in the question, not lost with the button.
    assert page.evaluate("document.activeElement.matches('[data-hitl-stop]')")
    page.goto("/admin/")
    open_interrupt(page)
    assert page.locator(".hitl-unsent").count() == 0


def test_a_comment_is_kept_until_it_is_added_and_apart_from_the_decision(
    log_in: Callable[..., Any], start: Start
) -> None:
    item = Interrupt.objects.get(run=start("typed", customer="Dana", amount=120.0))
    page = log_in()
    open_interrupt(page)
    page.get_by_label("Comment:").fill("I call her first.")
    page.goto("/admin/")
    open_interrupt(page)
    assert page.get_by_label("Comment:").input_value() == "I call her first."
    with leads_on(page):
        button(page, "Approve").click()
    # What was decided is recorded, the comment isn't.
    open_interrupt(page, item)
    assert page.get_by_label("Comment:").input_value() == "I call her first."
    with leads_on(page):
        button(page, "Add comment").click()
    assert Comment.objects.get().text == "I call her first."
    assert page.get_by_label("Comment:").input_value() == ""
    assert page.evaluate("sessionStorage.length") == 0


def test_what_is_typed_beside_a_comment_stays_when_that_is_added(page: Any) -> None:
    typed(page)
    page.get_by_label("Comment:").fill("I call her first.")
    with leads_on(page):
        button(page, "Add comment").click()
    assert page.get_by_label("Reason:").input_value() == "Half a thought"
    assert page.get_by_label("Comment:").input_value() == ""
    page.goto("/admin/")
    open_interrupt(page)
    assert_it_comes_back(page)
    assert page.get_by_label("Comment:").input_value() == ""


def test_without_a_script_it_stays_through_claim_release_and_comment(
    log_in: Callable[..., Any], start: Start
) -> None:
    item = Interrupt.objects.get(run=start("typed", customer="Dana", amount=120.0))
    page = log_in(**WITHOUT_JAVASCRIPT)
    open_interrupt(page)
    typed(page)
    page.get_by_label("Amount:").fill("99.5")
    comment = page.get_by_label("Comment:")
    for verb in ("Claim", "Release", "Add comment"):
        comment.fill("I call her first.")
        with leads_on(page):
            button(page, verb).click()
        assert page.get_by_label("Reason:").input_value() == "Half a thought", verb
        assert page.get_by_label("Amount:").input_value() == "99.5", verb
        assert comment.input_value() == ("" if verb == "Add comment" else "I call her first.")
        item.refresh_from_db()
        assert item.claimed_by_label == ("rita" if verb == "Claim" else "")
    assert Comment.objects.get().text == "I call her first."
    with leads_on(page):
        button(page, "Approve").click()
    decision = Decision.objects.get()
    assert (decision.type, decision.value["amount"]) == ("edit", 99.5)
    assert decision.reason == "Half a thought"


def test_the_reason_for_many_is_kept_as_well(log_in: Callable[..., Any], start: Start) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in()

    def select() -> None:
        page.goto("/admin/hitl_django/reviewitem/")
        page.locator("[name=item]").check()
        with leads_on(page):
            button(page, "Reject…").click()

    select()
    typed(page)
    page.goto("/admin/")
    select()
    assert_it_comes_back(page)
    with leads_on(page):
        button(page, "Reject 1").click()
    assert Decision.objects.get().reason == "Half a thought"
    assert page.evaluate("sessionStorage.length") == 0


class TestBelongsToWhoTypedIt:
    def test_another_user_in_the_same_tab_never_sees_it(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("typed", customer="Dana", amount=120.0)
        get_user_model().objects.create_superuser("ravi", password=PASSWORD)
        page = log_in("rita")
        open_interrupt(page)
        typed(page)
        page.goto("/admin/")
        page.context.clear_cookies()
        open_interrupt(page)
        sign_in(page, "ravi")
        assert page.get_by_label("Reason:").input_value() == ""
        assert page.locator(".hitl-unsent").count() == 0
        assert "Half a thought" not in stored(page)

    def test_it_is_gone_when_they_log_out(self, log_in: Callable[..., Any], start: Start) -> None:
        start("typed", customer="Dana", amount=120.0)
        page = log_in("rita")
        open_interrupt(page)
        typed(page)
        with leads_on(page):
            button(page, "Log out").click()
        assert page.evaluate("sessionStorage.length") == 0
        open_interrupt(page)
        sign_in(page, "rita")
        assert page.get_by_label("Reason:").input_value() == ""


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["desktop", "plain"])
def test_who_has_logged_in_again_since_gets_back_what_they_wrote(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in(**window)
    open_interrupt(page)
    typed(page, "Half a <thought>")
    # A log-in in another tab has changed the token that this page's form bears.
    tab = page.context.new_page()
    tab.context.clear_cookies()
    tab.goto("/admin/login/?next=/admin/")
    sign_in(tab, "rita")
    with leads_on(page):
        button(page, "Reject").click()
    assert "Your submission was rejected" in page.inner_text("h1")
    assert page.get_by_label("Reason").input_value() == "Half a <thought>"
    assert not Decision.objects.exists()
    with leads_on(page):
        page.get_by_role("link", name="Reopen the page").click()
    if not window:
        assert_it_comes_back(page, "Half a <thought>")


def test_a_form_with_a_field_called_action_is_sent_without_a_complaint(
    log_in: Callable[..., Any],
) -> None:
    create_webhook("https://crm.example/hooks")
    page = log_in("ravi")
    rights = Permission.objects.filter(codename__in=["view_webhookendpoint", "manage_webhooks"])
    get_user_model().objects.get(username="ravi").user_permissions.add(*rights)
    page.goto("/admin/hitl_webhooks/webhookendpoint/")
    page.locator("[name=_selected_action]").check()
    page.locator("select[name=action]").select_option("try_them")
    with leads_on(page):
        button(page, "Run").or_(button(page, "Go")).click()
    assert "Test event queued." in page.inner_text(".messagelist")
