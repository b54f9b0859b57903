"""Twenty decisions in a row, by keyboard and by mouse: what they take of a reviewer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hitl_django.models import Decision, Interrupt, Run

from .conftest import leads_on
from .test_looks import DESKTOP, is_in_sight
from .test_reviewing import button

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

MANY = 20


@contextmanager
def timed(figures: Callable[[str], None], way: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    figures(f"{MANY} decisions by {way}: {time.monotonic() - began:.1f} s")


@pytest.fixture
def queue(log_in: Callable[..., Any], start: Callable[..., Run]) -> Any:
    """A window with the queue, in which as many questions wait."""
    for number in range(MANY):
        start("typed", customer=f"Customer {number}", amount=120.0)
    page = log_in(**DESKTOP)
    page.goto("/admin/hitl_django/reviewitem/")
    return page


def test_take_two_keys_each(queue: Any, figures: Callable[[str], None]) -> None:
    keys = 0

    def press(key: str) -> None:
        nonlocal keys
        keys += 1
        queue.keyboard.press(key)

    with timed(figures, "keyboard"):
        with leads_on(queue):
            press("n")
        for _question in range(MANY):
            press("a")
            with leads_on(queue):
                press("Enter")
    assert keys == 1 + 2 * MANY
    assert Decision.objects.filter(type="approve").count() == MANY
    assert not Interrupt.objects.filter(status="pending").exists()


def test_take_one_click_each_and_no_scrolling(queue: Any, figures: Callable[[str], None]) -> None:
    with timed(figures, "mouse"):
        with leads_on(queue):
            button(queue, "Take next").click()
        for number in range(MANY):
            chosen = button(queue, "Reject" if number % 5 == 4 else "Approve")
            assert queue.evaluate("scrollY") == 0
            assert is_in_sight(queue, chosen)
            with leads_on(queue):
                chosen.click()
    assert Decision.objects.filter(type="reject").count() == MANY // 5
    assert Decision.objects.count() == MANY
