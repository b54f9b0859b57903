"""Fields of the response form: validation errors, choices and tables."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from hitl_django.models import Decision, Interrupt
from tests.graphs import Order

from .browsing import press, sheet_of, text_of
from .conftest import make_interrupt, page_of

ORDER: dict[str, Any] = {
    "contact": {"kind": "phone", "number": "123456", "note": "after six"},
    "wait": 3,
    "lines": [{"sku": "A-1", "count": 2, "price": 12.5, "own": 1}, {"sku": "B-7", "count": 1}],
}


@pytest.fixture
def order(db: None) -> Interrupt:
    return make_interrupt(ORDER, Order.model_json_schema())


def faults_of(page: str) -> list[str]:
    return re.findall(
        r"<li>([^<]*)</li>", "".join(re.findall(r'<ul class="errorlist.*?</ul>', page, re.S))
    )


class TestErrors:
    def test_request_form_shows_all_invalid_fields_and_too_long_reason_together(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        sheet = sheet_of(reviewer, order)
        wrong = {
            "answer/contact?1/number": ["12"],
            "answer/site": ["example.com"],
            "answer/lines/0/count": ["100"],
            "answer/lines/1/count": ["many"],
            "reason": ["x" * 10_001],
        }
        page = text_of(press(reviewer, order, "approve", {**sheet, **wrong}))
        assert set(faults_of(page)) == {
            "Must have between 5 and 20 characters, but has 2.",
            "Must be a URL, for example https://example.com/page.",
            "Must be between 1 and 99.",
            "Enter a whole number, for example 12.",
            "Ensure this value has at most 10000 characters (it has 10001).",
        }
        assert not Decision.objects.exists()

    def test_request_form_shows_range_and_choice_errors_in_german(
        self, reviewer: Client, order: Interrupt, settings: Any
    ) -> None:
        settings.LANGUAGE_CODE = "de"
        wrong = {"answer/lines/0/count": ["100"], "answer/contact?kind": [""]}
        sheet = sheet_of(reviewer, order)
        page = text_of(press(reviewer, order, "approve", {**sheet, **wrong}))
        assert "Muss zwischen 1 und 99 liegen." in faults_of(page)
        assert "12,5" in page

    def test_request_form_of_several_actions_shows_errors_of_all_actions_together(
        self, reviewer: Client
    ) -> None:
        schema = {"type": "object", "properties": {"cents": {"type": "integer", "maximum": 9}}}
        names = ("pay", "send")
        item = make_interrupt(
            {
                "action_requests": [{"name": name, "args": {"cents": 7}} for name in names],
                "review_configs": [
                    {
                        "action_name": name,
                        "allowed_decisions": ["approve", "edit"],
                        "args_schema": schema,
                    }
                    for name in names
                ],
            }
        )
        sheet = sheet_of(reviewer, item)
        wrong = {
            "action/0-decision": ["edit"],
            "action/0/args/cents": ["10"],
            "action/1/args/cents": ["11"],
        }
        page = text_of(press(reviewer, item, "each", {**sheet, **wrong}))
        assert faults_of(page).count("Must be at most 9.") == 2
        assert "Choose a decision for this action." in page

    def test_request_form_shows_error_of_missing_required_field_once(
        self, reviewer: Client
    ) -> None:
        numbers = {"n": {"type": "integer"}, "m": {"type": "integer", "minimum": 2}}
        schema = {"type": "object", "properties": numbers, "required": ["n"]}
        item = make_interrupt({}, schema)
        page = text_of(press(reviewer, item, "respond", n="", m="1"))
        assert faults_of(page) == ["This field is required.", "Must be at least 2."]


class TestChoicesAndTables:
    def test_union_and_table_form_submitted_unchanged_approves_with_the_payload_values(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        assert press(reviewer, order, "approve").status_code == 302
        assert Decision.objects.get().value == {**ORDER, "site": None, "approved": True}

    def test_union_and_table_form_saves_changed_added_and_removed_rows(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        changes = {
            "contact?kind": "0",
            "contact?0/address": "dana@example.com",
            "lines/0?absent": "on",
            "lines/2/sku": "C",
            "lines/2/count": "9",
        }
        assert press(reviewer, order, "approve", **changes).status_code == 302
        value = Decision.objects.get().value
        assert value["contact"] == {"kind": "email", "address": "dana@example.com"}
        assert value["lines"] == [{"sku": "B-7", "count": 1}, {"sku": "C", "count": 9}]

    def test_union_and_table_inputs_have_labels_with_matching_ids(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        page = text_of(reviewer.get(page_of(order)))
        for name in ("answer/contact?1/number", "answer/lines/0/sku", "answer/lines/2/count"):
            [found] = re.findall(rf'<input[^>]*name="{re.escape(name)}"[^>]*>', page)
            [made] = re.findall(r' id="([^"]*)"', found)
            assert re.search(rf'<label (?:class="hitl-label" )?for="{re.escape(made)}"', page)
        assert '<table class="hitl-rows">' in page
