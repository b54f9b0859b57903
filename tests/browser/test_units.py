"""Amounts of money and durations, typed in a browser under the strict policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl_django import START, StateGraph, interrupt
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision, Run

from .conftest import leads_on
from .test_accessibility import WAYS, faults
from .test_item import open_interrupt
from .test_reviewing import WITHOUT_JAVASCRIPT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

ASKED = {"title": "Refund Dana?", "amount": 12352, "currency": "EUR", "wait": 5400}
SCHEMA = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "minimum": 0, "maximum": 200000},
        "wait": {"type": "integer"},
    },
    "required": ["amount", "wait"],
}


@pytest.fixture
def shop() -> Iterator[str]:
    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": interrupt(ASKED, response_schema=SCHEMA)}

    display = {"amount": "money /currency", "wait": "duration"}
    graph = StateGraph(dict).add_node("ask", ask).add_edge(START, "ask")
    registry.register("units", review=ReviewPolicy(display=display))(lambda: graph)
    yield "units"
    registry.unregister("units")


@pytest.mark.parametrize(
    ("window", "language", "shown", "wrong", "typed"),
    [
        (WAYS[0], "en", "123.52", "12.345.6", "1,234.50"),
        (WAYS[1], "de", "123,52", "12,3456", "1.234,50"),
        (WITHOUT_JAVASCRIPT, "en", "123.52", "NaN", "1234.5"),
    ],
    ids=["desktop", "phone, German", "plain"],
)
def test_amount_and_duration_are_typed_in_their_units_and_sent_as_integers(
    log_in: Callable[..., Any],
    start: Callable[..., Run],
    shop: str,
    settings: Any,
    window: dict[str, Any],
    language: str,
    shown: str,
    wrong: str,
    typed: str,
) -> None:
    settings.LANGUAGE_CODE = language
    start(shop)
    page = log_in(**window)
    open_interrupt(page)
    amount, wait = page.locator("[name='answer/amount']"), page.locator("[name='answer/wait']")
    assert amount.input_value() == shown
    assert wait.input_value() == "1 h 30 min"
    assert page.locator(".hitl-unit").inner_text() == "EUR"
    described = (amount.get_attribute("aria-describedby") or "").split()
    texts = [page.locator(f"[id='{each}']").inner_text() for each in described]
    assert texts[0] == "EUR"
    assert "EUR" in texts[1]
    if window.get("java_script_enabled", True):
        assert faults(page) == []

    amount.fill(wrong)
    with leads_on(page):
        page.locator("button[value=respond]").click()
    assert amount.input_value() == wrong
    assert "12.50" in page.locator(".errorlist").inner_text().replace(",", ".")
    assert not Decision.objects.exists()

    amount.fill(typed)
    wait.fill("2 h")
    with leads_on(page):
        page.locator("button[value=respond]").click()
    assert Decision.objects.get().value == {"amount": 123450, "wait": 7200}
