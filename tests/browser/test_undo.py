"""Undo of a decision by button, by key and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.models import Decision, Interrupt, Run

from .conftest import leads_on
from .test_item import open_interrupt
from .test_many import press, select
from .test_reviewing import WITHOUT_JAVASCRIPT, button, open_reason

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

Start = Callable[..., Run]


@pytest.fixture
def interrupt(start: Start, settings: Any) -> Interrupt:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 600}
    run = start("typed", customer="Dana", amount=120.0)
    start("typed", customer="Sam", amount=60.0)
    return Interrupt.objects.get(run=run)


def approve(page: Any, interrupt: Interrupt, reason: str = "") -> None:
    open_interrupt(page, interrupt)
    open_reason(page).fill(reason)
    with leads_on(page):
        button(page, "Approve").click()


def undo(page: Any) -> Any:
    return page.get_by_role("button", name="Undo (")


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["with", "without JavaScript"])
def test_undo_button_makes_request_pending_and_claimed_by_the_user_who_decides_again(
    log_in: Callable[..., Any], interrupt: Interrupt, window: dict[str, Any]
) -> None:
    page = log_in(**window)
    approve(page, interrupt)
    assert str(interrupt.pk) not in page.url
    with leads_on(page):
        undo(page).click()
    assert str(interrupt.pk) in page.url
    assert "is pending again" in page.locator(":is(.messagelist, .hitl-toast)").inner_text()
    assert "Claimed by you" in page.locator("#content").inner_text()
    with leads_on(page):
        button(page, "Reject").click()
    assert Decision.objects.get(effective=True).type == "reject"


def test_undo_shortcut_reopens_the_request_with_the_typed_reason(
    log_in: Callable[..., Any], interrupt: Interrupt
) -> None:
    page = log_in()
    approve(page, interrupt, "Half a thought")
    with leads_on(page):
        page.keyboard.press("z")
    assert page.locator("[name=reason]").first.input_value() == "Half a thought"
    assert "Unsaved text from" in page.locator("form[data-hitl-draft]").first.inner_text()
    approve(page, interrupt, "The whole of it")
    assert Decision.objects.get(effective=True).reason == "The whole of it"
    with leads_on(page):
        undo(page).click()
    assert page.locator("[name=reason]").first.input_value() == "The whole of it"


def test_undo_button_on_decided_request_page_reopens_the_request(
    log_in: Callable[..., Any], interrupt: Interrupt
) -> None:
    page = log_in()
    approve(page, interrupt)
    open_interrupt(page, interrupt)
    with leads_on(page):
        undo(page).click()
    assert Interrupt.objects.get(pk=interrupt.pk).status == "pending"


def test_undo_button_counts_down_and_disappears_after_the_time_limit(
    log_in: Callable[..., Any], interrupt: Interrupt
) -> None:
    page = log_in()
    page.clock.install()
    approve(page, interrupt)
    count = page.locator("[data-hitl-seconds]")
    before = int(count.inner_text())
    page.clock.run_for(10_000)
    assert int(count.inner_text()) <= before - 9
    page.clock.run_for(600_000)
    assert count.count() == 0
    page.keyboard.press("z")  # the button was removed
    assert Decision.objects.get().undone_at is None


@pytest.mark.parametrize("window", [{}, WITHOUT_JAVASCRIPT], ids=["with", "without JavaScript"])
def test_bulk_approval_is_undone_for_all_requests_by_one_button(
    log_in: Callable[..., Any], interrupt: Interrupt, window: dict[str, Any]
) -> None:
    page = log_in(**window)
    select(page, "Dana", "Sam")
    press(page, "Approve…")
    press(page, "Approve 2")
    assert not Interrupt.objects.filter(status="pending").exists()
    with leads_on(page):
        page.get_by_role("button", name="Undo").click()
    assert "2 decisions undone." in page.inner_text(":is(.messagelist, .hitl-toast)")
    assert page.locator(".hitl-row").count() == 2
    assert not Decision.objects.filter(effective=True).exists()
