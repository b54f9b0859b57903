"""Two reviewers at the same time: claims, redirects, and decisions despite a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.models import Decision, Interrupt, Run
from hitl_django.worker import runner

from .conftest import leads_on
from .test_item import open_interrupt
from .test_reviewing import WITHOUT_JAVASCRIPT, button, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

Start = Callable[..., Run]
WAYS = pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["desktop", "plain"])


@WAYS
def test_two_reviewers_using_review_next_decide_different_requests(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    for number in range(6):
        start("typed", customer=f"Nr {number}", amount=120.0)
    rita, ravi = log_in("rita", **window), log_in("ravi", **window)
    for page in (rita, ravi):
        page.goto("/admin/hitl_django/reviewitem/")
        with leads_on(page):
            button(page, "Review next").click()
    for _ in range(2):
        for page in (rita, ravi):
            with leads_on(page):
                button(page, "Approve").click()
            assert "Claimed by you" in page.inner_text(".hitl-claim")
            assert rita.inner_text("h1") != ravi.inner_text("h1")
    assert (
        sorted(Decision.objects.values_list("by_label", flat=True)) == ["ravi"] * 2 + ["rita"] * 2
    )


def test_reviewer_rejecting_a_decided_request_sees_the_decider_and_reviews_next(
    log_in: Callable[..., Any], start: Start
) -> None:
    for name in ("Dana", "Sam", "Kim"):
        start("typed", customer=name, amount=120.0)
    first = Interrupt.objects.get(title="Refund Dana?")
    rita, ravi = log_in("rita"), log_in("ravi")
    for page in (rita, ravi):
        open_interrupt(page, first)
    with leads_on(ravi):
        button(ravi, "Approve").click()
    with leads_on(rita):
        button(rita, "Approve").click()
    assert "ravi approved this" in rita.inner_text("#content")
    with leads_on(rita):
        button(rita, "Review next").click()
    assert (ravi.inner_text("h1"), rita.inner_text("h1")) == ("Refund Sam?", "Refund Kim?")
    assert "Claimed by you" in rita.inner_text(".hitl-claim")


def test_status_line_after_response_rejected_by_graph_links_to_the_pending_request(
    log_in: Callable[..., Any], start: Start
) -> None:
    run = start("booking")
    start("typed", customer="Dana", amount=120.0)
    item = Interrupt.objects.filter(run=run).order_by("created_at", "index")[0]
    page = log_in()
    open_interrupt(page, item)
    article = page.locator("form[data-hitl-stop]").first
    article.get_by_label("Seats").fill("3")
    with leads_on(page):
        article.get_by_role("button", name="Send response", exact=True).click()
    runner.advance(str(run.pk))
    page.get_by_text("The graph rejected the response: ").wait_for()
    assert "seats are sold in pairs" in page.inner_text(":is(.messagelist, .hitl-toast)")
    with leads_on(page):
        page.get_by_role("link", name="The request is pending again. Open it").click()
    assert str(item.pk) in page.url
    assert "The last response was rejected by the graph" in page.inner_text("#content")


@WAYS
def test_edit_in_old_tab_requires_confirmation_if_another_reviewer_has_claimed_the_request(
    log_in: Callable[..., Any], start: Start, window: dict[str, Any]
) -> None:
    start("typed", customer="Dana", amount=120.0)
    rita, ravi = log_in("rita", **window), log_in("ravi", **window)
    open_interrupt(ravi)
    ravi.get_by_label("Amount").fill("99.5")
    open_reason(ravi).fill("Not all of it.")
    open_interrupt(rita)
    with leads_on(rita):
        button(rita, "Claim").click()
    with leads_on(ravi):
        button(ravi, "Approve").click()
    assert "Claimed by rita until" in ravi.locator(".hitl-bar").inner_text()
    assert "Decide anyway?" in ravi.locator(".hitl-bar").inner_text()
    assert not Decision.objects.exists()
    assert ravi.get_by_label("Amount").input_value() == "99.5"
    with leads_on(ravi):
        button(ravi, "Approve").click()
    decision = Decision.objects.get()
    assert (decision.type, decision.by_label, decision.claimed_by_label) == ("edit", "ravi", "rita")
    with leads_on(rita):
        button(rita, "Reject").click()
    assert "ravi approved this" in rita.inner_text("#content")
    assert "Claimed by" in rita.inner_text("#content")
