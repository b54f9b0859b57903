"""Twenty consecutive decisions by keyboard and by mouse: key strokes and clicks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.models import Decision, Interrupt, Run

from .conftest import leads_on
from .test_layout import DESKTOP, is_in_sight
from .test_reviewing import button

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

MANY = 20
#: Maximum number of seconds for the decisions by keyboard.
MOST = 25.0
#: Counts a user's actions in the window across pages. A key press on a button is not a click,
#: because clicks have a position on the screen.
COUNT_DEEDS = """
    for (const kind of ["keydown", "pointerdown", "wheel", "scroll"])
        addEventListener(kind, () => {
            const name = `deeds ${kind}`;
            sessionStorage.setItem(name, Number(sessionStorage.getItem(name)) + 1);
        }, { capture: true });
"""


@pytest.fixture
def fill_queue(start: Callable[..., Run]) -> Callable[[], None]:
    """Create the given number of requests."""

    def fill() -> None:
        for number in range(MANY):
            start("typed", customer=f"Customer {number}", amount=120.0)

    return fill


@pytest.fixture
def queue(log_in: Callable[..., Any]) -> Any:
    page = log_in(**DESKTOP)
    page.add_init_script(COUNT_DEEDS)
    return page


def open_queue(page: Any) -> None:
    page.goto("/admin/hitl_django/reviewitem/")
    page.evaluate("Object.keys(sessionStorage).forEach(key => sessionStorage.removeItem(key))")


def deeds(page: Any) -> dict[str, int]:
    found = page.evaluate("Object.entries(sessionStorage)")
    return {
        key.removeprefix("deeds "): int(count) for key, count in found if key.startswith("deeds ")
    }


def decide_by_keyboard(page: Any) -> float:
    """Approve all pending requests without scrolling, and return the seconds."""
    began = time.monotonic()
    with leads_on(page):
        page.keyboard.press("n")
    for _interrupt in range(MANY):
        page.keyboard.press("a")
        assert page.evaluate("scrollY") == 0
        with leads_on(page):
            page.keyboard.press("Enter")
    return time.monotonic() - began


def test_twenty_decisions_by_keyboard_take_two_keys_per_decision_within_the_time_limit(
    queue: Any, fill_queue: Callable[[], None], figures: Callable[[str], None]
) -> None:
    took = []
    # The better of two attempts, because other processes may slow down the machine.
    while len(took) < 2 and min(took, default=MOST) >= MOST:
        fill_queue()
        open_queue(queue)
        took.append(decide_by_keyboard(queue))
        assert deeds(queue) == {"keydown": 1 + 2 * MANY}
    figures(f"{MANY} decisions by keyboard: {min(took):.1f} s")
    assert Decision.objects.filter(type="approve").count() == MANY * len(took)
    assert not Interrupt.objects.filter(status="pending").exists()
    assert min(took) < MOST


def test_twenty_decisions_by_mouse_take_one_click_per_approval_and_two_per_rejection(
    queue: Any, fill_queue: Callable[[], None], figures: Callable[[str], None]
) -> None:
    fill_queue()
    open_queue(queue)
    began = time.monotonic()
    with leads_on(queue):
        button(queue, "Review next").click()
    for number in range(MANY):
        chosen = button(queue, "Reject" if number % 5 == 4 else "Approve")
        assert queue.evaluate("scrollY") == 0
        assert is_in_sight(queue, chosen)
        with leads_on(queue):
            chosen.click()
    figures(f"{MANY} decisions by mouse: {time.monotonic() - began:.1f} s")
    assert deeds(queue) == {"pointerdown": 1 + MANY + MANY // 5}
    assert Decision.objects.filter(type="reject").count() == MANY // 5
    assert Decision.objects.count() == MANY
