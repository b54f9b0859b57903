"""Drafts: typed text is stored in the browser until the server confirms the submission.

Each failing submission leaves the page. The browser then discards the form, and the next page must
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
from .test_reviewing import WITHOUT_JAVASCRIPT, button, open_reason

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
    open_reason(page).fill(text)


def sign_in(page: Any, name: str) -> None:
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    with leads_on(page):
        page.click("[type=submit]")


def assert_it_comes_back(page: Any, text: str = "Half a thought") -> None:
    assert page.locator("[name=reason]").first.input_value() == text
    assert LINE in page.locator("form[data-hitl-draft]").first.inner_text()


@pytest.fixture
def page(log_in: Callable[..., Any], start: Start) -> Any:
    start("typed", customer="Dana", amount=120.0)
    opened = log_in()
    open_interrupt(opened)
    return opened


class TestRestoredDrafts:
    def test_draft_is_restored_after_navigation_and_deleted_after_saving(self, page: Any) -> None:
        typed(page)
        page.goto("/admin/")
        open_interrupt(page)
        assert_it_comes_back(page)
        with leads_on(page):
            button(page, "Reject").click()
        assert Decision.objects.get().reason == "Half a thought"
        assert page.evaluate("sessionStorage.length") == 0

    def test_draft_is_restored_after_expired_session(self, page: Any) -> None:
        typed(page)
        Session.objects.all().delete()
        with leads_on(page):
            button(page, "Reject").click()
        assert page.inner_text("h1") == "Your decision was not recorded"
        assert page.get_by_label("Reason").input_value() == "Half a thought"
        with leads_on(page):
            page.get_by_role("link", name="Log in").click()
        sign_in(page, "rita")
        assert_it_comes_back(page)
        assert "Your decision was not recorded." in page.inner_text("body")
        assert not Decision.objects.exists()

    def test_draft_is_restored_after_network_failure(self, page: Any) -> None:
        typed(page)
        page.route(
            "**/change/",
            lambda route: route.abort() if route.request.method == "POST" else route.continue_(),
        )
        button(page, "Reject").click()
        assert page.get_by_role("alert").inner_text().startswith("No connection.")
        assert page.locator("[name=reason]").first.input_value() == "Half a thought"
        assert not Decision.objects.exists()
        open_interrupt(page)
        assert_it_comes_back(page)

    def test_decision_without_network_connection_stays_on_the_page_and_is_sent_by_retry_button(
        self, page: Any
    ) -> None:
        typed(page)
        page.context.set_offline(True)
        for name in ("Reject", "Retry"):
            button(page, name).click()
            assert page.get_by_role("alert").inner_text().startswith("No connection.")
        assert page.locator("[name=reason]").first.input_value() == "Half a thought"
        page.context.set_offline(False)
        with leads_on(page):
            button(page, "Retry").click()
        assert Decision.objects.get().type == "reject"
        assert Decision.objects.get().reason == "Half a thought"

    @pytest.mark.parametrize("status", [403, 409, 500, 502])
    def test_draft_is_restored_after_server_error(self, page: Any, status: int) -> None:
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

    def test_draft_is_restored_after_validation_error_followed_by_navigation(
        self, page: Any
    ) -> None:
        typed(page)
        page.get_by_label("Amount").fill("a lot")
        with leads_on(page):
            button(page, "Approve").click()
        assert "Enter a number" in page.locator(".hitl-field:has(.errorlist)").inner_text()
        # The returned page shows the draft, and no other unsent text.
        assert LINE not in page.inner_text("#content")
        page.goto("/admin/")
        open_interrupt(page)
        assert_it_comes_back(page)
        assert page.get_by_label("Amount").input_value() == "a lot"

    def test_draft_restored_after_navigation_includes_selects_and_checkboxes(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
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
        assert LINE in page.inner_text("form[data-hitl-draft]")

    def test_draft_of_changed_or_closed_request_is_shown_as_text_to_copy(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        item = Interrupt.objects.get(run=start("typed", customer="Dana", amount=120.0))
        page = log_in()
        open_interrupt(page)
        typed(page, "<b>Half</b> a thought")
        page.goto("/admin/")
        Interrupt.objects.filter(pk=item.pk).update(version=2)
        open_interrupt(page)
        assert page.locator("[name=reason]").first.input_value() == ""
        assert LINE in page.inner_text("form[data-hitl-draft]")
        assert "<b>Half</b> a thought" in page.inner_text("section:has(h2:text-is('Your text'))")
        services.decide(item.pk, "approve")
        open_interrupt(page)
        assert "<b>Half</b> a thought" in page.inner_text("#content")
        button(page, "Discard").click()
        open_interrupt(page)
        assert "a thought" not in page.inner_text("#content")


def test_draft_notice_shows_saved_time_and_discards_the_draft(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in(locale="de-DE")
    open_interrupt(page)
    typed(page)
    page.get_by_label("Amount").fill("99")
    page.goto("/admin/")
    open_interrupt(page)
    line = page.locator(".hitl-unsent")
    assert line.get_attribute("role") == "status"
    assert ":" in line.locator("time").inner_text()
    assert page.get_by_text("Changed from 120.0").is_visible()
    button(page, "Discard").click()
    assert line.count() == 0
    assert page.locator("[name=reason]").first.input_value() == ""
    assert page.get_by_label("Amount").input_value() == "120.0"
    assert not page.get_by_text("Changed from 120.0").is_visible()
    # The focus moves to the request when the button is removed.
    assert page.evaluate("document.activeElement.matches('[data-hitl-stop]')")
    page.goto("/admin/")
    open_interrupt(page)
    assert page.locator(".hitl-unsent").count() == 0


def test_comment_draft_is_restored_separately_from_the_decision_draft(
    log_in: Callable[..., Any], start: Start
) -> None:
    item = Interrupt.objects.get(run=start("typed", customer="Dana", amount=120.0))
    page = log_in()
    open_interrupt(page)
    page.get_by_label("Comment").fill("I call her first.")
    page.goto("/admin/")
    open_interrupt(page)
    assert page.get_by_label("Comment").input_value() == "I call her first."
    with leads_on(page):
        button(page, "Approve").click()
    # The decision was stored, and the comment wasn't.
    open_interrupt(page, item)
    assert page.get_by_label("Comment").input_value() == "I call her first."
    with leads_on(page):
        button(page, "Add comment").click()
    assert Comment.objects.get().text == "I call her first."
    assert page.get_by_label("Comment").input_value() == ""
    assert page.evaluate("sessionStorage.length") == 0


def test_response_draft_is_restored_after_adding_a_comment(page: Any) -> None:
    typed(page)
    page.get_by_label("Comment").fill("I call her first.")
    with leads_on(page):
        button(page, "Add comment").click()
    assert page.locator("[name=reason]").first.input_value() == "Half a thought"
    assert page.get_by_label("Comment").input_value() == ""
    page.goto("/admin/")
    open_interrupt(page)
    assert_it_comes_back(page)
    assert page.get_by_label("Comment").input_value() == ""


def test_response_draft_without_javascript_stays_in_the_form_after_claim_release_and_comment(
    log_in: Callable[..., Any], start: Start
) -> None:
    item = Interrupt.objects.get(run=start("typed", customer="Dana", amount=120.0))
    page = log_in(**WITHOUT_JAVASCRIPT)
    open_interrupt(page)
    typed(page)
    page.get_by_label("Amount").fill("99.5")
    comment = page.get_by_label("Comment")
    for verb in ("Claim", "Release", "Add comment"):
        comment.fill("I call her first.")
        with leads_on(page):
            button(page, verb).click()
        assert page.locator("[name=reason]").first.input_value() == "Half a thought", verb
        assert page.get_by_label("Amount").input_value() == "99.5", verb
        assert comment.input_value() == ("" if verb == "Add comment" else "I call her first.")
        item.refresh_from_db()
        assert item.claimed_by_label == ("rita" if verb == "Claim" else "")
    assert Comment.objects.get().text == "I call her first."
    with leads_on(page):
        button(page, "Approve").click()
    decision = Decision.objects.get()
    assert (decision.type, decision.value["amount"]) == ("edit", 99.5)
    assert decision.reason == "Half a thought"


def test_bulk_rejection_reason_draft_is_restored_after_navigation(
    log_in: Callable[..., Any], start: Start
) -> None:
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


class TestDraftsOfOtherUsers:
    def test_draft_is_hidden_from_another_user_logged_in_to_the_same_tab(
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
        assert page.locator("[name=reason]").first.input_value() == ""
        assert page.locator(".hitl-unsent").count() == 0
        assert "Half a thought" not in stored(page)

    def test_draft_is_deleted_at_logout(self, log_in: Callable[..., Any], start: Start) -> None:
        start("typed", customer="Dana", amount=120.0)
        page = log_in("rita")
        open_interrupt(page)
        typed(page)
        with leads_on(page):
            button(page, "Log out").click()
        assert page.evaluate("sessionStorage.length") == 0
        open_interrupt(page)
        sign_in(page, "rita")
        assert page.locator("[name=reason]").first.input_value() == ""


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["desktop", "plain"])
def test_draft_submitted_with_expired_session_is_restored_after_login(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in(**window)
    open_interrupt(page)
    typed(page, "Half a <thought>")
    # A login in another tab has changed the CSRF token of this page's form.
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
        page.get_by_role("link", name="Open the form again").click()
    if not window:
        assert_it_comes_back(page, "Half a <thought>")


def test_webhook_action_form_with_field_named_action_is_submitted(
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
    assert "Test event queued." in page.inner_text(":is(.messagelist, .hitl-toast)")
