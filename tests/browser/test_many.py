"""Bulk actions, suggested reasons and assignment in the browser."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group

from hitl_django import START, StateGraph, interrupt, services
from hitl_django.admin.queue import batches
from hitl_django.admin.queue.queue_admin import ReviewItemAdmin
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Comment, Decision, Interrupt, Run

from .conftest import PASSWORD, leads_on
from .scenes import ask, people
from .test_accessibility import WAYS, faults
from .test_item import open_interrupt
from .test_reviewing import WITHOUT_JAVASCRIPT, button, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

QUEUE = "/admin/hitl_django/reviewitem/"
WINDOWS = pytest.mark.parametrize(
    "window", [*WAYS, WITHOUT_JAVASCRIPT], ids=["desktop, light", "phone, dark", "plain"]
)


def select(page: Any, *names: str) -> None:
    page.goto(QUEUE)
    for name in names:
        page.get_by_label(f"Select “Refund {name}?”").check()


def press(page: Any, name: str) -> None:
    with leads_on(page):
        button(page, name).click()


@pytest.fixture
def rita(log_in: Callable[..., Any], start: Callable[..., Run]) -> Callable[..., Any]:
    people(PASSWORD)
    for name in ("Dana", "Sam", "Kim"):
        start("typed", customer=name, amount=120.0)
    return lambda **window: log_in("rita", **window)


@WINDOWS
def test_bulk_claim_assign_and_snooze_change_selected_requests(
    rita: Callable[..., Any], window: dict[str, Any]
) -> None:
    group = Group.objects.create(name="Night shift")
    page = rita(**window)

    def look() -> None:
        if window.get("java_script_enabled", True):
            assert faults(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    select(page, "Dana", "Sam")
    press(page, "Claim")
    assert "Requests claimed: 2" in page.inner_text(":is(.messagelist, .hitl-toast)")
    look()
    held = Interrupt.objects.filter(claimed_by_label="rita").values_list("title", flat=True)
    assert sorted(held) == ["Refund Dana?", "Refund Sam?"]

    select(page, "Sam", "Kim")
    press(page, "Assign…")
    assert page.locator(".hitl-results [name=item]:checked").count() == 2
    look()
    page.get_by_label("Username").fill("nobody of this name")
    press(page, "Assign")
    assert "No user with this username." in page.inner_text(".errorlist")
    look()
    page.get_by_label("Username").fill("ravi")
    page.get_by_label("Group").select_option("Night shift")
    press(page, "Assign")
    assert "Requests assigned: 2" in page.inner_text(":is(.messagelist, .hitl-toast)")
    assert Interrupt.objects.filter(assignee_label="ravi", group=group).count() == 2

    select(page, "Dana", "Kim")
    press(page, "Snooze…")
    look()
    page.get_by_label("Snooze until").select_option("week")
    press(page, "Snooze")
    assert "Requests snoozed: 2" in page.inner_text(":is(.messagelist, .hitl-toast)")
    assert Interrupt.objects.filter(snoozed_until__isnull=False).count() == 2
    assert page.locator(".hitl-row").count() == 1


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["desktop", "plain"])
def test_bulk_approval_of_all_matching_requests_shows_progress_and_all_results(
    rita: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, window: dict[str, Any]
) -> None:
    monkeypatch.setattr(batches, "BATCH", 1)
    monkeypatch.setattr(ReviewItemAdmin, "list_per_page", 2)
    page = rita(**window)
    select(page, "Dana")
    page.get_by_label("Select all 3 that match").check()
    press(page, "Approve…")
    assert "3 requests to decide" in page.inner_text(".hitl-meta")
    if window:
        for done in (1, 2):
            button(page, "Approve 3" if done == 1 else "Continue").click()
            page.get_by_text(f"{done} of 3 requests processed").wait_for()
            assert page.locator("progress").get_attribute("value") == str(done)
        button(page, "Continue").click()
    else:
        button(page, "Approve 3").click()
    page.get_by_text("3 decisions saved.").wait_for()
    assert Decision.objects.filter(type="approve").count() == 3


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["desktop", "plain"])
def test_bulk_approval_skips_requests_deselected_on_the_confirmation_page(
    rita: Callable[..., Any], window: dict[str, Any]
) -> None:
    page = rita(**window)
    select(page, "Dana", "Sam", "Kim")
    press(page, "Approve…")
    page.get_by_label("Select “Refund Sam?”").uncheck()
    press(page, "Approve 3" if window else "Approve 2")
    assert "2 decisions saved." in page.inner_text("[role=status]")
    assert Interrupt.objects.get(status="pending").title == "Refund Sam?"


def test_deselecting_a_row_ends_the_selection_of_all_matching_requests(
    rita: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReviewItemAdmin, "list_per_page", 2)
    page = rita()
    select(page, "Dana", "Sam")
    page.get_by_label("Select all 3 that match").check()
    page.get_by_label("Select “Refund Sam?”").uncheck()
    assert not page.get_by_label("Select all 3 that match").is_checked()


def test_people_are_suggested_for_mentions_and_assignment(rita: Callable[..., Any]) -> None:
    page = rita()
    page.goto(QUEUE)
    with leads_on(page):
        page.get_by_role("link", name="Refund Dana?").click()
    comment = page.get_by_label("Comment")
    comment.press_sequentially("Please look, @rav")
    page.get_by_role("option", name="ravi").wait_for()
    assert faults(page) == []
    comment.press("ArrowDown")
    comment.press("Enter")
    assert comment.input_value() == "Please look, @ravi "
    assert not page.get_by_role("listbox").is_visible()
    page.locator("summary", has_text="Assign").click()
    page.get_by_label("Username").press_sequentially("rav")
    page.get_by_role("option", name="ravi").click()
    assert page.get_by_label("Username").input_value() == "ravi"
    press(page, "Assign")
    assert Interrupt.objects.filter(assignee_label="ravi").count() == 1
    assert comment.input_value() == "Please look, @ravi "


@pytest.fixture
def worded() -> Iterator[str]:
    """A graph with usual words for those who decide what it asks."""
    policy = ReviewPolicy(reasons=["Too late", "Too much"], replies=["Ask the customer again."])

    def asking(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": interrupt("Pay Dana?")}

    graph = StateGraph(dict).add_node("ask", asking)
    registry.register("worded", review=policy)(lambda: graph.add_edge(START, "ask"))
    yield "worded"
    registry.unregister("worded")


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["desktop", "plain"])
def test_suggested_reason_reply_and_markdown_comment_are_saved(
    worded: str, log_in: Callable[..., Any], start: Callable[..., Run], window: dict[str, Any]
) -> None:
    first, second = (Interrupt.objects.get(run=start(worded)) for _ in range(2))
    page = log_in(**window)
    open_interrupt(page, first)
    page.get_by_label("Comment").fill("It is **hers**, see <b>the</b> `invoice`.")
    press(page, "Add comment")
    comment = page.locator(".hitl-acts-list > li:has(.hitl-said)")
    assert comment.locator("strong").last.inner_text() == "hers"
    assert comment.locator("code").inner_text() == "invoice"
    assert "<b>the</b>" in comment.inner_text()
    assert Comment.objects.count() == 1
    open_reason(page).fill("By a week.")
    page.get_by_text("Too late", exact=True).click()
    press(page, "Reject")
    assert Decision.objects.get().reason == "Too late\nBy a week."
    open_interrupt(page, second)
    page.get_by_text("Reply instead").click()
    page.get_by_text("Ask the customer again.", exact=True).click()
    press(page, "Send response")
    assert Decision.objects.get(interrupt=second).value == "Ask the customer again."


def test_insights_page_downloads_decisions_as_csv_with_escaped_formulas(
    log_in: Callable[..., Any], start: Callable[..., Run]
) -> None:
    rita, _ = people(PASSWORD)
    services.decide(ask("approval", text="the news").pk, "reject", by=rita, reason="=1+1")
    page = log_in("rita")
    page.goto("/admin/hitl_insights/spotcheck/reports/")
    page.locator("summary", has_text="CSV").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="Decisions", exact=True).locator("visible=true").last.click()
    assert found.value.suggested_filename.startswith("decisions-")
    with open(found.value.path(), encoding="utf-8-sig", newline="") as file:
        [row] = csv.DictReader(file)
    assert "rita" in row.values()
    # A spreadsheet doesn't interpret the text as a formula.
    assert "'=1+1" in row.values()


def test_shared_saved_filter_is_shown_to_and_applied_by_another_user(
    log_in: Callable[..., Any], start: Callable[..., Run]
) -> None:
    people(PASSWORD)
    for text in ("the stars", "the news"):
        ask("approval", text=text)
    rita, ravi = log_in("rita"), log_in("ravi")
    for name, shared in (("Stars", True), ("News", False)):
        rita.goto(f"{QUEUE}?q={name.lower()}")
        rita.click(".hitl-views > summary")
        rita.fill(".hitl-save [name=name]", name)
        rita.locator(".hitl-save [name=shared]").set_checked(shared)
        with leads_on(rita):
            rita.click(".hitl-save button")
    ravi.goto(QUEUE)
    ravi.click(".hitl-views > summary")
    assert "News" not in ravi.inner_text(".hitl-views")
    with leads_on(ravi):
        ravi.click(".hitl-views >> text=Stars")
    [row] = ravi.locator(".hitl-row").all()
    assert "the stars" in row.inner_text()


def test_three_reviewers_using_review_next_decide_different_requests(
    log_in: Callable[..., Any], start: Callable[..., Run]
) -> None:
    for number in range(6):
        start("typed", customer=f"Nr {number}", amount=120.0)
    pages = [log_in(name) for name in ("rita", "ravi", "rosa")]
    for page in pages:
        page.goto(QUEUE)
    for page in pages:
        press(page, "Review next")
    assert len({page.inner_text("h1") for page in pages}) == 3
    for page in pages:
        press(page, "Approve")
        assert "Claimed by you" in page.inner_text(".hitl-claim")
        assert len({one.inner_text("h1") for one in pages}) == 3
    for page in pages:
        press(page, "Approve")
    assert not Interrupt.objects.filter(status="pending").exists()
    assert sorted(Decision.objects.values_list("by_label", flat=True)) == [
        "ravi", "ravi", "rita", "rita", "rosa", "rosa",
    ]  # fmt: skip


def test_queue_updates_approval_count_of_request_with_quorum_of_three_without_reload(
    log_in: Callable[..., Any], start: Callable[..., Run]
) -> None:
    item = ask("reviewed", payload={"title": "Publish?"}, terms={"quorum": 3})
    names = ("rita", "ravi", "rosa")
    pages = {name: log_in(name) for name in names}
    for page in pages.values():
        page.clock.install()
        page.goto(QUEUE)
    for count, name in enumerate(names, 1):
        page = pages[name]
        with leads_on(page):
            page.get_by_role("link", name="Publish?").click()
        said = page.get_by_role("region", name="Approvals").inner_text()
        assert ("None yet" if count == 1 else f"{count - 1} of 3") in said
        assert all(other in said for other in names[: count - 1])
        if count == 3:
            for watching in names[:2]:
                pages[watching].goto(QUEUE)
        press(page, "Approve")
        item.refresh_from_db()
        assert item.status == ("decided" if count == 3 else "pending")
    assert sorted(Decision.objects.values_list("by_label", flat=True)) == sorted(names)
    for watching in names[:2]:
        page = pages[watching]
        row = page.locator(".hitl-row")
        page.clock.fast_forward(20_000)
        row.get_by_text("rosa approved this").wait_for()
        assert row.get_by_role("checkbox").is_disabled()
