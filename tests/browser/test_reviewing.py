"""A complete review, from the queue to the end of the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from hitl_django.models import Decision, Interrupt, Run
from hitl_django.worker import runner

from .conftest import leads_on

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Run]
WITHOUT_JAVASCRIPT = {"java_script_enabled": False}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def button(page: Any, name: str) -> Any:
    """Return a button of the page; opens or closes the drawers of the bar like a user."""
    if name == "Reject":
        open_drawer(page, ".hitl-drawer:not(.hitl-reply)")
    elif name.startswith("Approve"):
        for summary in page.locator(".hitl-drawer[open] > summary").all():
            summary.click()
    if name == "Approve":
        # The script adds "with changes" if a field has changed.
        return page.get_by_role("button", name=re.compile(r"^Approve( with changes)?$"))
    return page.get_by_role("button", name=name, exact=True)


def open_drawer(page: Any, drawer: str) -> None:
    closed = page.locator(f"{drawer}:not([open]) > summary")
    if closed.count():
        closed.first.click()


def open_reason(page: Any) -> Any:
    """Return the reason's field, in its drawer if it has one."""
    open_drawer(page, ".hitl-drawer:not(.hitl-reply)")
    return page.locator("[name=reason]").first


@pytest.mark.parametrize(
    "window",
    [{}, WITHOUT_JAVASCRIPT, PHONE, {"color_scheme": "dark"}],
    ids=["desktop", "without JavaScript", "phone", "dark"],
)
def test_reviewer_approves_edits_and_rejects_and_runs_succeed(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    runs = [start("typed", customer=name, amount=120.0) for name in ("Dana", "Sam", "Kim")]
    page = log_in(**window)

    page.goto("/admin/hitl_django/reviewitem/")
    assert "3 pending requests" in page.inner_text("#content")
    with leads_on(page):
        page.get_by_role("link", name="Refund Dana?").click()
    assert page.inner_text("h1").strip() == "Refund Dana?"
    assert page.get_by_label("Amount").input_value() == "120.0"

    with leads_on(page):
        button(page, "Approve").click()
    assert "You approved “Refund Dana?”." in page.inner_text(":is(.messagelist, .hitl-toast)")

    # The next question came up by itself.
    assert page.inner_text("h1").strip() == "Refund Sam?"
    page.get_by_label("Amount").fill("99.5")
    with leads_on(page):
        button(page, "Approve").click()
    assert "with changes" in page.inner_text(":is(.messagelist, .hitl-toast)")

    open_reason(page).fill("Not within 30 days.")
    with leads_on(page):
        button(page, "Reject").click()
    assert "You rejected “Refund Kim?”" in page.inner_text(":is(.messagelist, .hitl-toast)")
    assert "No pending requests." in page.inner_text("#content")

    decided = {d.interrupt.run_id: d for d in Decision.objects.select_related("interrupt")}
    assert [decided[run.pk].type for run in runs] == ["approve", "edit", "reject"]
    assert decided[runs[1].pk].value == {"approved": True, "amount": 99.5, "note": ""}
    assert decided[runs[2].pk].reason == "Not within 30 days."

    with leads_on(page):
        page.get_by_role("link", name="View run").click()
    assert "Queued" in page.inner_text(".hitl-page-head")
    for run in runs:
        runner.advance(str(run.pk))
    with leads_on(page):
        page.get_by_role("link", name="Refresh").click()
    assert "Succeeded" in page.inner_text(".hitl-page-head")
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}


def test_approval_with_unreadable_amount_shows_the_field_error_and_entered_values(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in()
    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        page.get_by_role("link", name="Refund Dana?").click()
    page.get_by_label("Amount").fill("a lot")
    open_reason(page).fill("They deserve it.")
    with leads_on(page):
        button(page, "Approve").click()
    assert "Not submitted." in page.get_by_role("alert").inner_text()
    assert "Enter a number" in page.locator(".hitl-field:has(.errorlist)").inner_text()
    assert page.get_by_label("Amount").input_value() == "a lot"
    assert page.locator("[name=reason]").first.input_value() == "They deserve it."
    assert not Decision.objects.exists()


def test_reviewer_approving_a_rejected_request_sees_the_conflict_and_entered_values(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    rita, ravi = log_in("rita"), log_in("ravi")
    for page in (rita, ravi):
        page.goto("/admin/hitl_django/reviewitem/")
        with leads_on(page):
            page.get_by_role("link", name="Refund Dana?").click()
    with leads_on(ravi):
        button(ravi, "Reject").click()
    rita.get_by_label("Amount").fill("80")
    open_reason(rita).fill("I would pay most of it.")
    with leads_on(rita):
        button(rita, "Approve").click()
    told = rita.inner_text("#content")
    assert "ravi rejected this" in told
    assert "Your input was not submitted." in told
    assert "I would pay most of it." in told
    assert "80" in told
    assert Decision.objects.get().by_label == "ravi"


def test_enter_key_in_text_area_does_not_submit_the_request_form(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in()
    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        page.get_by_role("link", name="Refund Dana?").click()
    page.evaluate("addEventListener('submit', () => document.title = 'sent', true)")
    page.get_by_label("Amount").press("Enter")
    assert page.title() != "sent"
    assert page.inner_text("h1").strip() == "Refund Dana?"
    assert not Decision.objects.exists()


def test_approve_button_of_edited_payload_is_labelled_approve_with_changes_and_saves_an_edit(
    log_in: Callable[..., Any], start: Start
) -> None:
    run = start("approval", text="the first line\nand the second")
    page = log_in()
    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        page.locator(".hitl-row-title a").click()
    page.locator(".hitl-edit > summary").click()
    page.get_by_label("Text").fill("another text")
    with leads_on(page):
        button(page, "Approve with changes").click()
    assert Decision.objects.get().value["text"] == "another text"
    runner.advance(str(run.pk))
    assert Run.objects.get(pk=run.pk).state == "succeeded"


@pytest.mark.any_database
def test_phone_controls_are_44_pixels_high_and_the_page_fits_390_pixels(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    page = log_in(**PHONE)
    page.goto("/admin/hitl_django/reviewitem/")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    with leads_on(page):
        page.locator(".hitl-row-title a").tap()
    page.wait_for_selector("[data-hitl-sheet]")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for name in ("Approve", "Reject"):
        box = button(page, name).bounding_box()
        assert box["height"] >= 44
        # The bar stays in sight, wherever the page is.
        assert box["y"] + box["height"] <= 844
    targets = ":is(input, textarea, select, button:not(.hitl-guard), summary, a.button):visible"
    for control in page.locator(f"#hitl {targets}").all():
        assert control.bounding_box()["height"] >= 44, control.inner_text()


@pytest.mark.parametrize(
    "window", [{}, WITHOUT_JAVASCRIPT, PHONE], ids=["desktop", "without JavaScript", "phone"]
)
def test_reviewer_rejects_next_request_and_then_the_remaining_in_bulk(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    for name in ("Dana", "Sam", "Kim", "Lee"):
        start("typed", customer=name, amount=120.0)
    page = log_in(**window)
    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        button(page, "Review next").click()
    assert page.inner_text("h1").strip() == "Refund Dana?"

    page.goto("/admin/hitl_django/reviewitem/")
    with leads_on(page):
        page.get_by_role("link", name="Mine 1").click()
    assert "Refund Dana?" in page.inner_text(".hitl-list")
    assert "Claimed by you" in page.locator(".hitl-who").text_content()
    with leads_on(page):
        page.get_by_role("link", name="Unclaimed 3").click()
    assert "Refund Dana?" not in page.inner_text(".hitl-list")
    for name in ("Sam", "Kim"):
        page.get_by_label(f"Select “Refund {name}?”").check()
    with leads_on(page):
        button(page, "Reject…").click()
    assert "2 requests to decide" in page.inner_text("#content")
    open_reason(page).fill("Not within 30 days.")
    with leads_on(page):
        button(page, "Reject 2").click()
    assert "2 decisions saved." in page.inner_text("#content")
    with leads_on(page):
        page.get_by_role("link", name="Back to the queue").click()
    assert "1 pending request" in page.inner_text("#content")  # the list is filtered as before
    assert sorted(Decision.objects.values_list("type", flat=True)) == ["reject", "reject"]


@pytest.mark.any_database
@pytest.mark.parametrize("language", ["en", "ar"])
def test_queue_on_phone_fits_in_left_to_right_and_right_to_left_languages(
    log_in: Callable[..., Any], start: Start, settings: Any, language: str
) -> None:
    settings.LANGUAGE_CODE = language
    start("typed", customer="Ad" + "alonglonglong" * 12, amount=120.0)
    page = log_in(**PHONE)
    page.goto("/admin/hitl_django/reviewitem/")
    rtl = language == "ar"
    assert page.get_attribute("html", "dir") == ("rtl" if rtl else "ltr")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tick = page.locator("input[name=item]").bounding_box()
    title = page.locator(".hitl-row-title a").bounding_box()
    assert abs(tick["y"] - title["y"]) < 24  # the tick stands beside its question
    assert (tick["x"] > title["x"]) is rtl


@pytest.mark.any_database
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("width", [1280, 800, 390])
def test_queue_row_is_inside_the_list_at_every_window_width(
    log_in: Callable[..., Any], start: Start, width: int, language: str, settings: Any
) -> None:
    settings.LANGUAGE_CODE = language
    start("approval", text="a letter with words enough for two lines of any list that shows it")
    now, crew = timezone.now(), Group.objects.create(name="Night shift")
    Interrupt.objects.update(
        due_at=now - timedelta(hours=3), expires_at=now + timedelta(days=2), group=crew,
        group_label="Night shift", assignee_label="ravi", claimed_by_label="ravi",
        claimed_until=now + timedelta(minutes=10), snoozed_until=None,
    )  # fmt: skip
    page = log_in(viewport={"width": width, "height": 844})
    page.goto("/admin/hitl_django/reviewitem/")
    beyond = page.evaluate(
        """() => [...document.querySelectorAll(":is(.hitl-row-main, .hitl-row-meta) > *")]
            .filter(part => part.getBoundingClientRect().right
                > document.querySelector(".hitl-list").getBoundingClientRect().right + 1
        ).map(part => part.textContent.trim())"""
    )
    assert beyond == []
    row, main = page.locator(".hitl-row").bounding_box(), page.locator(".hitl-row-main")
    assert main.bounding_box()["width"] > row["width"] / (4 if width > 1023 else 1.5)
