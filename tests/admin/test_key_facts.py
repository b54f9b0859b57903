"""Tests of the key facts in rows of the review queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.test import Client

from hitl_django import START, ReviewPolicy, StateGraph
from hitl_django.graph_registry import registry

from .browsing import text_of
from .conftest import list_of, make_interrupt

pytestmark = pytest.mark.django_db

Register = Callable[..., str]


@pytest.fixture
def orders() -> Iterator[Register]:
    graph = StateGraph(dict).add_node("ask", lambda state: state).add_edge(START, "ask")

    def register(**policy: Any) -> str:
        registry.register("orders", review=ReviewPolicy(**policy))(lambda: graph)
        return "orders"

    yield register
    registry.unregister("orders")


def facts_of(client: Client, query: str = "") -> list[str]:
    """Return the text of each row's line of facts."""
    page = text_of(client.get(f"{list_of()}{query}"))
    lines = re.findall(r'<p class="hitl-row-facts">(.*?)</p>', page, re.S)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", line)).split()) for line in lines]


PAYLOAD = {
    "title": "Refund 12.00 EUR to Dana",
    "amount": "12.00 EUR",
    "order_number": "A-1",
    "paid": True,
    "lines": [1, 2],
    "days": 6,
    "note": "The left shoe is a 41, the right shoe is a 42.",
    "country": "PL",
}


def test_queue_row_without_facts_policy_shows_first_three_short_values_and_longest_text(
    reviewer: Client, orders: Register
) -> None:
    make_interrupt(PAYLOAD, graph=orders(), title=PAYLOAD["title"])
    assert facts_of(reviewer) == [f"Order number A-1 Paid Yes Days 6 {PAYLOAD['note']}"]


def test_queue_row_shows_facts_of_the_review_policy_in_the_order_of_the_policy(
    reviewer: Client, orders: Register
) -> None:
    payload = {**PAYLOAD, "customer": {"name": "Dana"}, "cents": 1200}
    policy = {"facts": ["country", "/customer/name", "cents", "missing"]}
    make_interrupt(payload, graph=orders(**policy, display={"cents": "money EUR"}))
    assert facts_of(reviewer) == ["Country PL Name Dana Cents 12.00\xa0EUR".replace("\xa0", " ")]


def test_fact_in_a_list_has_the_format_of_its_display_hint(
    reviewer: Client, orders: Register
) -> None:
    payload = {**PAYLOAD, "items": [{"sku": "B-2", "cents": 1200}]}
    policy = {"facts": ["/items/0/sku", "/items/0/cents", "/items/1/sku", "/items/x/sku"]}
    make_interrupt(payload, graph=orders(**policy, display={"/items/cents": "money EUR"}))
    assert facts_of(reviewer) == ["Sku B-2 Cents 12.00\xa0EUR".replace("\xa0", " ")]


@pytest.mark.parametrize(
    ("facts", "error"),
    [("order", TypeError), ([""], ValueError), ([1], TypeError)],
)
def test_review_policy_with_invalid_facts_raises_type_or_value_error(
    facts: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="facts"):
        ReviewPolicy(facts=facts)


def test_queue_row_after_search_in_payload_shows_the_marked_match(
    reviewer: Client, orders: Register
) -> None:
    make_interrupt(PAYLOAD, graph=orders(), title="A refund")
    page = text_of(reviewer.get(f"{list_of()}?q=shoe"))
    assert "The left <mark>shoe</mark> is a 41" in page
    assert "<mark>" not in text_of(reviewer.get(f"{list_of()}?q=refund"))


def test_queue_row_escapes_html_and_invisible_characters_of_facts(
    reviewer: Client, orders: Register
) -> None:
    text = "x <b>shoe</b> \u202e" + "y" * 50
    make_interrupt({"a": "<i>1</i>", "text": text}, graph=orders(), title="t")
    for query in ("", "?q=shoe"):
        page = text_of(reviewer.get(f"{list_of()}{query}"))
        assert "<i>1" not in page
        assert "<b>shoe" not in page
        assert "\u202e" not in page


@pytest.mark.parametrize("payload", [None, "text", 5, [1, 2], {}, {"a": {}}, {"a": None}])
def test_queue_row_with_any_payload_renders(payload: Any, reviewer: Client) -> None:
    make_interrupt(payload, title="Any?")
    assert len(facts_of(reviewer)) == 1


def test_queue_row_of_tool_call_shows_its_arguments(reviewer: Client) -> None:
    payload = {
        "action_requests": [{"name": "refund", "args": {"order": "A-7", "amount": 49.9}}],
        "review_configs": [{"action_name": "refund", "allowed_decisions": ["approve"]}],
    }
    make_interrupt(payload, title="Allow refund?")
    assert facts_of(reviewer) == ["Order A-7 Amount 49.9"]


def test_queue_row_shows_fact_that_is_only_a_part_of_a_number_in_the_title(
    reviewer: Client, orders: Register
) -> None:
    make_interrupt({"earlier": 2, "days": 12}, graph=orders(), title="Refund 12.00 EUR")
    assert facts_of(reviewer) == ["Earlier 2"]
