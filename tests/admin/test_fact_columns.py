"""Facts as columns in the queue of one graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from hitl_django import START, ReviewPolicy, StateGraph
from hitl_django.admin.display.key_facts import LARGEST
from hitl_django.graph_registry import registry

from .browsing import text_of
from .conftest import list_of, make_interrupt

pytestmark = pytest.mark.django_db


@pytest.fixture
def refunds() -> Iterator[str]:
    graph = StateGraph(dict).add_node("ask", lambda state: state).add_edge(START, "ask")
    review = ReviewPolicy(facts=["order", "/customer/days", "note"])
    registry.register("refunds", review=review)(lambda: graph)
    yield "refunds"
    registry.unregister("refunds")


def heads(page: str) -> list[str]:
    [found] = re.findall(r'<div class="hitl-heads".*?</div>', page, re.S)
    return [head for head in re.findall(r"<span>([^<]*)</span>", found) if head]


def cells(page: str) -> list[str]:
    found = re.findall(r'<span class="hitl-cell-fact[^>]*>(.*?)</span>', page, re.S)
    return [re.sub(r"\s*<b>.*?</b>\s*|</?bdi>", "", cell) for cell in found]


def test_queue_of_one_graph_shows_the_facts_of_its_policy_as_columns(
    reviewer: Client, refunds: str
) -> None:
    payload = {"order": "A-1", "customer": {"days": 41}, "note": "Torn.", "other": 1}
    make_interrupt(payload, graph=refunds)
    make_interrupt({"order": "A-2"}, graph=refunds, priority=-1)
    page = text_of(reviewer.get(f"{list_of()}?graph={refunds}"))
    assert heads(page) == ["Request", "Order", "Days", "Note", "Assignee", "Due"]
    assert cells(page) == ["A-1", "41", "Torn.", "A-2", "", ""]
    assert "has-3" in page


def test_fact_column_shows_a_fact_that_is_also_in_the_title_and_cuts_long_texts(
    reviewer: Client, refunds: str
) -> None:
    make_interrupt({"order": "A-1", "note": "x" * 500}, graph=refunds, title="Refund A-1?")
    [order, _days, note] = cells(text_of(reviewer.get(f"{list_of()}?graph={refunds}")))
    assert order == "A-1"
    assert note.startswith("xxx")
    assert len(note) <= 60


@pytest.mark.parametrize(
    "payload", [None, [], "text", {"order": {"a": 1}}, {"note": "x" * LARGEST}]
)
def test_fact_columns_are_empty_if_no_fact_can_be_read_from_the_payload(
    reviewer: Client, refunds: str, payload: Any
) -> None:
    make_interrupt(payload, graph=refunds)
    assert cells(text_of(reviewer.get(f"{list_of()}?graph={refunds}"))) == ["", "", ""]


@pytest.mark.parametrize("query", ["", "graph=made", "graph=unknown"])
def test_queue_of_all_graphs_or_of_a_graph_without_facts_has_no_columns(
    reviewer: Client, refunds: str, query: str
) -> None:
    make_interrupt({"order": "A-1"}, graph=refunds)
    make_interrupt({"order": "A-1"}, graph="made")
    assert "hitl-columns" not in text_of(reviewer.get(f"{list_of()}?{query}"))


def test_facts_in_columns_are_escaped(reviewer: Client, refunds: str) -> None:
    make_interrupt({"order": "<b>A</b>", "note": "\u202eevil"}, graph=refunds)
    page = text_of(reviewer.get(f"{list_of()}?graph={refunds}"))
    assert "&lt;b&gt;A&lt;/b&gt;" in page
    assert "\u202e" not in page


def test_queue_of_one_graph_with_columns_takes_at_most_ten_queries(
    reviewer: Client, refunds: str, django_assert_max_num_queries: Any
) -> None:
    for _number in range(30):
        make_interrupt({"order": "A-1"}, graph=refunds)
    with django_assert_max_num_queries(10):
        reviewer.get(f"{list_of()}?graph={refunds}")
