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
            assert f'<label for="{made}"' in page
        assert '<table class="hitl-rows">' in page


class TestPreview:
    def preview(self, client: Client, item: Interrupt, **typed: str) -> str:
        posted = {**sheet_of(client, item), "preview": ["1"]}
        posted |= {
            (name if name == "reason" else f"answer/{name}"): [v] for name, v in typed.items()
        }
        response = client.post(page_of(item), posted)
        assert response.status_code == 200
        assert not Decision.objects.exists()
        return text_of(response)

    def test_preview_of_edit_shows_word_differences_and_typed_values_and_can_be_submitted(
        self, reviewer: Client
    ) -> None:
        text = (
            "Dear Dana, your parcel left our warehouse two days late. It arrives on Thursday. " * 2
        )
        item = make_interrupt({"title": "Send it?", "text": text, "cents": 5})
        changed = text.replace("two days", "a day")
        page = self.preview(reviewer, item, text=changed, cents="7", reason="It was one.")
        made = page[
            page.index('class="hitl-preview"') : page.index(
                "</section>", page.index("hitl-preview")
            )
        ]
        assert "<del>two</del><ins>a</ins>" in made
        assert '<ins class="hitl-text">7</ins>' in made
        assert "Value sent to the graph" in made
        assert "It was one.</textarea>" in page
        assert press(reviewer, item, "edit", text=changed, cents="7").status_code == 302

    def test_preview_of_changed_response_lists_the_changed_field_path(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        page = self.preview(reviewer, order, **{"lines/0/count": "3"})
        assert "Lines ▸ 1 ▸ Count" in page
        assert "No changes." in self.preview(reviewer, order)

    def test_preview_of_invalid_input_shows_field_errors_without_preview(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        wrong = {"lines/0/count": "100", "contact?1/number": "1"}
        page = self.preview(reviewer, order, **wrong)
        assert len(faults_of(page)) == 2
        assert "hitl-preview" not in page

    def test_preview_of_several_actions_labels_changes_with_action_number_and_name(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt(
            {
                "action_requests": [{"name": "pay", "args": {"cents": n}} for n in (1, 2)],
                "review_configs": [
                    {"action_name": "pay", "allowed_decisions": ["approve", "edit"]}
                ],
            }
        )
        posted = {**sheet_of(reviewer, item), "preview": ["1"], "action/1/args/cents": ["9"]}
        page = text_of(reviewer.post(page_of(item), posted))
        assert "2. pay ▸ Cents" in page
        assert "Choose a decision for this action" not in page

    def test_preview_of_request_changed_since_opening_returns_409(
        self, reviewer: Client, order: Interrupt
    ) -> None:
        posted = {**sheet_of(reviewer, order), "preview": ["1"]}
        Interrupt.objects.update(payload_digest="other")
        assert reviewer.post(page_of(order), posted).status_code == 409
