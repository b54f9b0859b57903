"""An open page says what others do meanwhile, without a reload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import services
from hitl_django.models import Interrupt, Run

from .test_reviewing import WITHOUT_JAVASCRIPT, button

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Run]


def open_question(page: Any) -> None:
    page.goto(f"/admin/hitl_django/reviewitem/{Interrupt.objects.get().pk}/change/")


def test_who_else_looks_at_a_question_is_named(log_in: Callable[..., Any], start: Start) -> None:
    start("typed", customer="Dana", amount=120.0)
    rita, ravi = log_in("rita"), log_in("ravi")
    open_question(rita)
    open_question(ravi)
    ravi.get_by_text("Also looking at this: rita.").wait_for()
    rita.get_by_text("Also looking at this: ravi.").wait_for()


def test_that_somebody_has_just_decided_is_said_and_nothing_typed_is_lost(
    log_in: Callable[..., Any], start: Start
) -> None:
    start("typed", customer="Dana", amount=120.0)
    rita, ravi = log_in("rita"), log_in("ravi")
    open_question(rita)
    rita.get_by_label("Reason:").fill("I was about to say yes.")
    open_question(ravi)
    button(ravi, "Reject").click()
    ravi.wait_for_selector(".messagelist")
    rita.get_by_text("ravi rejected this").wait_for()
    assert rita.get_by_label("Reason:").input_value() == "I was about to say yes."
    rita.get_by_role("link", name="Look at it as it is now").click()
    rita.get_by_role("heading", name="ravi rejected this").wait_for()


def test_nothing_is_said_without_a_script(log_in: Callable[..., Any], start: Start) -> None:
    run = start("typed", customer="Dana", amount=120.0)
    page = log_in(**WITHOUT_JAVASCRIPT)
    open_question(page)
    services.cancel(run.pk)
    assert not page.get_by_text("Look at it as it is now").is_visible()
