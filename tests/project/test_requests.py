"""The demo's input: valid and unique lines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hitl_django.management.jsonl import parse_line, read_lines
from project.customers import CUSTOMERS
from project.graphs import agent, newsletter, refund

REQUESTS = Path(refund.__file__).parents[1] / "data" / "requests.jsonl"
MODELS: dict[str, Any] = {
    "agent": agent.AgentRequest,
    "newsletter": newsletter.NewsletterRequest,
    "refund": refund.RefundRequest,
}


@pytest.fixture(scope="module")
def requests() -> list[Any]:
    with REQUESTS.open("rb") as source:
        return [parse_line(line, None) for line in read_lines(source)]


def test_demo_request_input_is_valid_for_its_graph(requests: list[Any]) -> None:
    for request in requests:
        MODELS[request.graph].model_validate(request.input)


def test_demo_request_subjects_are_the_customers_of_the_inputs(requests: list[Any]) -> None:
    about = [request for request in requests if request.subject is not None]
    assert {request.subject.type for request in about} == {"project.customer"}
    assert {request.subject.id for request in about} == set(CUSTOMERS)
    for request in about:
        assert request.input["customer"] == CUSTOMERS[request.subject.id]


def test_demo_has_at_least_200_distinct_requests(requests: list[Any]) -> None:
    assert len(requests) >= 200
    assert len({json.dumps(request.input, sort_keys=True) for request in requests}) == len(requests)
    assert len({(request.graph, request.key) for request in requests}) == len(requests)


def test_demo_requests_cover_currencies_and_text_lengths(requests: list[Any]) -> None:
    kinds = Counter(request.graph for request in requests)
    assert min(kinds[name] for name in MODELS) >= 40
    refunds = [request.input for request in requests if request.graph == "refund"]
    assert len({each["currency"] for each in refunds}) >= 40
    lengths = [len(request.input["draft"]) for request in requests if request.graph == "newsletter"]
    assert min(lengths) < 10
    assert max(lengths) > 10_000
