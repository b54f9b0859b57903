"""Use of the request page by keyboard, by touch and with adjacent requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitl_django.models import Decision, Interrupt, Run
from hitl_django.worker import runner

from .conftest import leads_on
from .scenes import REQUEST
from .test_lists import QUEUE
from .test_reviewing import PHONE, WITHOUT_JAVASCRIPT, button, open_reason

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Run]
WAYS = pytest.mark.parametrize(
    "window", [{}, WITHOUT_JAVASCRIPT, PHONE], ids=["desktop", "plain", "phone"]
)


def open_interrupt(page: Any, item: Interrupt | None = None) -> None:
    item = item or Interrupt.objects.get()
    page.goto(f"/admin/hitl_django/reviewitem/{item.pk}/change/")


def shown_hints(page: Any) -> list[Any]:
    return list(page.locator("kbd:visible").all())


def focused(page: Any) -> str:
    """Return the name, the value or the tag of the focused element."""
    return str(
        page.evaluate(
            "(e => e.matches('button') ? e.textContent.trim() : e.name || e.tagName)"
            "(document.activeElement)"
        )
    )


class TestKeys:
    def test_keyboard_shortcuts_suffice_to_edit_and_approve_a_request(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        run = start("typed", customer="Dana", amount=120.0)
        page = log_in()
        open_interrupt(page)
        page.keyboard.press("e")
        assert focused(page) == "answer/amount"
        page.keyboard.press("Control+a")
        page.keyboard.type("99.5")
        assert page.get_by_text("Changed from 120.0").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("r")
        assert focused(page) == "reason"
        page.keyboard.type("are and answer are letters here")
        page.keyboard.press("Escape")
        page.keyboard.press("a")
        assert focused(page).startswith("Approve")
        assert not Decision.objects.exists()
        with leads_on(page):
            page.keyboard.press("Enter")
        decision = Decision.objects.get()
        assert (decision.interrupt.run_id, decision.type) == (run.pk, "edit")
        assert decision.value == {"approved": True, "amount": 99.5, "note": ""}
        assert decision.reason == "are and answer are letters here"

    def test_keyboard_shortcut_for_edit_opens_a_collapsed_section_and_focuses_its_field(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("plain", payload={"title": "Pay?", "amount": 12})
        page = log_in()
        open_interrupt(page)
        page.keyboard.press("e")
        assert focused(page) == "answer/amount"

    def test_reject_shortcut_pressed_before_switching_windows_rejects_on_control_enter(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("approval", text="the news")
        page = log_in()
        open_interrupt(page)
        page.keyboard.press("r")
        assert page.inner_text(".hitl-armed") == "Reject"
        page.evaluate("(e => { e.blur(); e.focus(); })(document.activeElement)")
        assert page.inner_text(".hitl-armed") == "Reject"
        page.keyboard.type("Not true.")
        with leads_on(page):
            page.keyboard.press("Control+Enter")
        assert Decision.objects.get().type == "reject"

    def test_keyboard_shortcuts_move_focus_in_the_list_and_claim_one_request_after_another(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        for name in ("Dana", "Sam"):
            start("typed", customer=name, amount=120.0)
        page = log_in()
        page.goto("/admin/hitl_django/reviewitem/")
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") == "Refund Sam?"
        with leads_on(page):
            page.keyboard.press("n")
        assert "Claimed by you" in page.inner_text(".hitl-claim")
        first = page.inner_text("h1")
        with leads_on(page):
            page.keyboard.press("n")
        assert page.inner_text("h1") != first
        assert "Claimed by you" in page.inner_text(".hitl-claim")
        assert not Decision.objects.exists()

    def test_control_enter_submits_the_button_selected_by_a_shortcut(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("typed", customer="Dana", amount=120.0)
        page = log_in()
        open_interrupt(page)
        page.keyboard.press("Control+Enter")
        assert page.locator(".hitl-armed").count() == 0
        page.keyboard.press("e")
        assert page.locator(".hitl-armed").inner_text().startswith("Approve")
        page.keyboard.press("Escape")
        page.keyboard.press("r")
        assert page.locator(".hitl-armed").inner_text() == "Reject"
        page.keyboard.type("Too late.")
        with leads_on(page):
            page.keyboard.press("Control+Enter")
        assert Decision.objects.get().type == "reject"

    def test_keyboard_shortcuts_for_comment_claim_and_skip_save_no_decision(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        for name in ("Dana", "Sam"):
            start("typed", customer=name, amount=120.0)
        page = log_in()
        open_interrupt(page, Interrupt.objects.order_by("created_at")[0])
        page.keyboard.press("m")
        assert focused(page) == "text"
        page.keyboard.press("Escape")
        with leads_on(page):
            page.keyboard.press("c")
        assert "Claimed by you" in page.inner_text(".hitl-claim")
        first = page.inner_text("h1")
        with leads_on(page):
            page.keyboard.press("s")
        assert page.inner_text("h1") != first
        assert not Decision.objects.exists()

    def test_keyboard_input_other_than_shortcuts_saves_no_decision(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("typed", customer="Dana", amount=120.0)
        page = log_in()
        open_interrupt(page)
        # The shortcuts "c" and "s" claim and skip.
        for key in "abdefghilmopqrtuvwxyz0123456789 ,.-#":
            page.keyboard.press(key)
            page.keyboard.press("Escape")
        for key in ("Control+a", "Alt+a", "Meta+a", "Shift+A", "Control+r"):
            page.locator("h1").click()
            page.evaluate("document.activeElement.blur()")
            if key != "Control+r":
                page.keyboard.press(key)
                assert focused(page) == "BODY"
        composing = "new KeyboardEvent('keydown', {key: 'a', isComposing: true, bubbles: true})"
        page.evaluate(f"document.body.dispatchEvent({composing})")
        assert focused(page) == "BODY"
        assert not Decision.objects.exists()

    def test_keyboard_shortcut_help_opens_and_can_disable_shortcuts_permanently(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("typed", customer="Dana", amount=120.0)
        page = log_in()
        open_interrupt(page)
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog")
        assert dialog.is_visible()
        page.keyboard.press("a")
        assert focused(page) != "decision"
        page.get_by_label("Enable shortcuts in this browser").uncheck()
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        page.reload()
        page.keyboard.press("a")
        assert focused(page) == "BODY"
        # The browser's back button needs no shortcut.
        page.locator(".hitl-nav > [data-hitl-help]").click()
        page.get_by_label("Enable shortcuts in this browser").check()
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("a")
        assert focused(page).startswith("Approve")

    def test_hints_of_keyboard_shortcuts_are_shown_only_while_shortcuts_work(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("typed", customer="Dana", amount=120.0)
        start("typed", customer="Sam", amount=80.0)
        for window in ({}, WITHOUT_JAVASCRIPT):
            page = log_in(**window)
            page.goto(QUEUE)
            expected = [] if window else ["N", "/"]
            assert [key.inner_text() for key in shown_hints(page)] == expected
            page.locator(".hitl-row a").first.click()
            assert bool(shown_hints(page)) is not bool(window)
            assert page.locator("[title='Next (J)']").count() == (0 if window else 1)
        page = log_in()
        open_interrupt(page, Interrupt.objects.first())
        page.keyboard.press("?")
        page.get_by_label("Enable shortcuts in this browser").uncheck()
        assert page.locator("dialog kbd:visible").count() > 10
        page.keyboard.press("Escape")
        for _ in range(2):
            assert not shown_hints(page)
            assert page.locator("[title='Keyboard shortcuts']").count() == 1
            page.reload()


class TestSeveralRequests:
    def test_decision_on_first_of_two_requests_preserves_text_typed_for_the_second(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        run = start("panel")
        page = log_in()
        open_interrupt(page, Interrupt.objects.order_by("created_at", "index")[0])
        left = page.get_by_role("form", name="Question to left")
        right = page.get_by_role("form", name="Question to right")
        for article, text in ((right, "from the right"), (left, "from the left")):
            article.get_by_text("Reply instead").click()
            article.get_by_label("Your response").fill(text)
        with leads_on(page):
            button(left, "Send response").click()
        assert page.inner_text("h1").strip() == "Question to right"
        assert page.get_by_label("Your response").input_value() == "from the right"
        with leads_on(page):
            button(page, "Send response").click()
        assert {d.value for d in Decision.objects.all()} == {"from the left", "from the right"}
        runner.advance(str(run.pk))
        assert Run.objects.get(pk=run.pk).state == "succeeded"

    def test_keyboard_shortcuts_move_focus_between_requests_of_a_run(
        self, log_in: Callable[..., Any], start: Start
    ) -> None:
        start("panel")
        page = log_in()
        open_interrupt(page, Interrupt.objects.order_by("created_at", "index")[0])
        seen = []
        for key in "jjk":
            page.keyboard.press(key)
            seen.append(page.evaluate("document.activeElement.querySelector('h2').textContent"))
        assert seen == ["Question to left", "Question to right", "Question to left"]


def test_status_line_changes_from_queued_to_succeeded_without_reload(
    log_in: Callable[..., Any], start: Start
) -> None:
    run = start("typed", customer="Dana", amount=120.0)
    page = log_in()
    open_interrupt(page)
    with leads_on(page):
        button(page, "Approve").click()
    line = page.locator(":is(.messagelist, .hitl-toast) .hitl-follow")
    assert line.inner_text() == "Queued, waiting for a worker."
    runner.advance(str(run.pk))
    page.get_by_text("Succeeded.").wait_for()
    assert line.get_attribute("role") == "status"


def test_confirmation_of_decision_becomes_a_warning_when_the_run_fails(
    log_in: Callable[..., Any], start: Start
) -> None:
    run = start("typed", customer="Dana", amount=120.0)
    page = log_in()
    open_interrupt(page)
    with leads_on(page):
        button(page, "Approve").click()
    assert page.locator(".hitl-toast.is-warning").count() == 0
    Run.objects.filter(pk=run.pk).update(state="failed")
    page.locator(".hitl-toast.is-warning").get_by_text("Failed with an error.").wait_for()


@WAYS
def test_table_rows_are_added_changed_and_removed_and_saved_as_edit(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    start("approval", text="the news")
    lines = [{"sku": "A-1", "count": 1}, {"sku": "B-2", "count": 2}]
    Interrupt.objects.update(payload={"title": "Ship this?", "lines": lines})
    page = log_in(**window)
    open_interrupt(page)
    page.locator(".hitl-edit > summary").click()
    page.get_by_label("Sku, ").nth(0).fill("A-9")
    with leads_on(page):
        button(page, "Add rows").click()
    # The request is still pending. The form keeps its content and can add rows.
    assert page.get_by_label("Sku, ").nth(0).input_value() == "A-9"
    assert page.get_by_label("Sku, ").count() == 6
    page.get_by_label("Remove, ").nth(1).check()
    page.get_by_label("Sku, ").nth(4).fill("C-3")
    page.get_by_label("Count, ").nth(4).fill("3")
    with leads_on(page):
        button(page, "Approve").click()
    assert Decision.objects.get().value["lines"] == [
        {"sku": "A-9", "count": 1},
        {"sku": "C-3", "count": 3},
    ]


@pytest.mark.any_database
def test_right_to_left_request_page_fits_a_phone(
    log_in: Callable[..., Any], start: Start, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "ar"
    start("typed", customer="دانة", amount=120.0)
    page = log_in(**PHONE)
    open_interrupt(page)
    assert page.evaluate("document.documentElement.dir") == "rtl"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.locator(".hitl-bar button").first.bounding_box()
    assert box["y"] + box["height"] <= 844


@WAYS
def test_request_with_two_actions_saves_a_decision_per_action(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    run = start("plain", payload=REQUEST)
    page = log_in(**window)
    open_interrupt(page)
    first, second = page.locator(".hitl-call").all()
    first.get_by_label("Don't run the action; send a response instead").check()
    second.get_by_label("Approve with the changes below").check()
    second.get_by_text("Edit arguments").click()
    second.get_by_label("Cents").fill("900")
    with leads_on(page):
        button(page, "Submit decisions").click()
    # The response is missing. All other input is kept.
    assert "Enter a response." in page.locator(".hitl-call").first.inner_text()
    assert page.get_by_label("Cents").input_value() == "900"
    page.locator(".hitl-call").first.get_by_label("Message").fill("Call her.")
    with leads_on(page):
        button(page, "Submit decisions").click()
    edited = {"name": "pay", "args": {"cents": 900, "currency": "EUR"}}
    assert Decision.objects.get().value == {
        "decisions": [
            {"type": "respond", "message": "Call her."},
            {"type": "edit", "edited_action": edited},
        ]
    }
    runner.advance(str(run.pk))
    assert Run.objects.get(pk=run.pk).state == "succeeded"


def test_request_without_javascript_can_be_claimed_commented_and_approved(
    log_in: Callable[..., Any], start: Start
) -> None:
    run = start("typed", customer="Dana", amount=120.0)
    page = log_in(**WITHOUT_JAVASCRIPT)
    open_interrupt(page)
    assert not page.locator(".hitl-nav > [data-hitl-help]").is_visible()
    with leads_on(page):
        button(page, "Claim").click()
    assert "Claimed by you, 1" in page.inner_text(".hitl-claim")
    page.get_by_label("Comment").fill("I call her first.")
    with leads_on(page):
        button(page, "Add comment").click()
    assert "I call her first." in page.inner_text(".hitl-acts-list")
    with leads_on(page):
        button(page, "Approve").click()
    assert "Queued, waiting for a worker." in page.inner_text(":is(.messagelist, .hitl-toast)")
    runner.advance(str(run.pk))
    with leads_on(page):
        page.get_by_role("link", name="View run").click()
    assert "Succeeded" in page.inner_text("#hitl")


def test_submission_from_stale_tab_or_after_back_button_does_not_change_saved_decision(
    log_in: Callable[..., Any], start: Start
) -> None:
    for name in ("Dana", "Sam"):
        start("typed", customer=name, amount=120.0)
    item = Interrupt.objects.get(title="Refund Dana?")
    page = log_in()
    tab = page.context.new_page()
    for window in (page, tab):
        open_interrupt(window, item)
    with leads_on(page):
        button(page, "Approve").click()
    page.go_back()
    page.get_by_text("You approved this").wait_for()
    open_reason(tab).fill("On second thoughts.")
    with leads_on(tab):
        button(tab, "Reject").click()
    tab.get_by_text("You approved this").wait_for()
    told = tab.inner_text("#content")
    assert "Your latest submission was not saved." in told
    assert "On second thoughts." in told
    with leads_on(tab):
        button(tab, "Review next").click()
    assert tab.inner_text("h1").strip() == "Refund Sam?"
    assert Decision.objects.get().type == "approve"


@pytest.mark.any_database
def test_request_page_in_custom_base_template_has_shortcuts_and_saves_edit(
    log_in: Callable[..., Any], start: Start, settings: Any, tmp_path: Path
) -> None:
    # Themes have their own base template with Django's blocks, but with little of Django's markup.
    folder = tmp_path / "admin"
    folder.mkdir()
    (folder / "base.html").write_text(THEME)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [str(tmp_path)]}]
    start("typed", customer="Dana", amount=120.0)
    page = log_in()
    open_interrupt(page)
    assert page.inner_text("header") == "A theme"
    page.keyboard.press("e")
    page.keyboard.type("9")
    with leads_on(page):
        button(page, "Approve").click()
    page.get_by_text("You approved “Refund Dana?” with changes.").wait_for()
    assert Decision.objects.get().type == "edit"


THEME = """<!doctype html>
<html lang="en"><head><title>{% block title %}{% endblock %}</title>
{% block extrastyle %}{% endblock %}{% block extrahead %}{% endblock %}
{% block blockbots %}{% endblock %}</head>
<body class="{% block bodyclass %}{% endblock %}"><header>A theme</header>
{% block messages %}{% for message in messages %}<p>{{ message }}</p>{% endfor %}{% endblock %}
{% block breadcrumbs %}{% endblock %}{% block pretitle %}{% endblock %}
{% block content_title %}{% endblock %}<main id="content">{% block content %}{% endblock %}</main>
{% block sidebar %}{% endblock %}{% block footer %}{% endblock %}</body></html>
"""


def test_reply_above_upload_limit_stays_in_the_form_with_too_large_message(
    log_in: Callable[..., Any], start: Start, settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 4000
    start("approval", text="the news")
    page = log_in()
    open_interrupt(page)
    page.get_by_text("Reply instead").click()
    # Each line end is sent as six characters.
    page.fill("[name=reply]", "\n" * 700)
    button(page, "Send response").click()
    assert page.get_by_text("Your submission is too large.").is_visible()
    page.fill("[name=reply]", "\n" * 400 + "Later.")
    with leads_on(page):
        button(page, "Send response").click()
    assert Decision.objects.get().value == "\n" * 400 + "Later."
