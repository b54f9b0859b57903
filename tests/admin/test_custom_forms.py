"""Templates and form classes of the project for a graph or a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.test import Client

from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.graph_registry.registry import register, unregister
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision
from tests.graphs import plain

from .browsing import press, sheet_of, text_of
from .conftest import make_interrupt, page_of

SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "amount": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "seats": {"type": "integer", "maximum": 9},
    },
    "required": ["approved", "amount"],
}
ASKED = {"amount": "12.50", "seats": 4, "unknown": [1]}


class RefundForm(forms.Form):
    amount = forms.DecimalField(min_value=1)
    day = forms.DateField(required=False)
    seats = forms.IntegerField(required=False)
    origin = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean_seats(self) -> int:
        seats = self.cleaned_data["seats"]
        if seats and seats % 2:
            raise forms.ValidationError("Seats are sold in pairs.")
        return int(seats)


@contextmanager
def graph_with(**policy: Any) -> Iterator[str]:
    name = "customized"
    register(name, review=ReviewPolicy(**policy))(plain)
    try:
        yield name
    finally:
        unregister(name)


@pytest.fixture(params=[RefundForm, "tests.admin.test_custom_forms.RefundForm"])
def graph(request: pytest.FixtureRequest) -> Iterator[str]:
    with graph_with(forms={"ask": request.param}) as name:
        yield name


class TestForm:
    def test_custom_form_submitted_unchanged_approves_with_the_payload_values(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt(ASKED, SCHEMA, graph=graph)
        assert "answer-amount" in sheet_of(reviewer, item)
        assert press(reviewer, item, "approve").status_code == 302
        decision = Decision.objects.get()
        assert decision.type == "approve"
        assert decision.value == {"amount": "12.50", "seats": 4, "approved": True}

    def test_custom_form_with_changed_fields_saves_an_edit_with_cleaned_data(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt(ASKED, SCHEMA, graph=graph)
        sheet = {**sheet_of(reviewer, item), "answer-amount": ["99"], "answer-day": ["2026-01-31"]}
        assert press(reviewer, item, "approve", sheet).status_code == 302
        decision = Decision.objects.get()
        assert decision.type == "edit"
        assert decision.value == {
            "amount": "99", "day": "2026-01-31", "seats": 4, "approved": True,
        }  # fmt: skip

    def test_custom_form_shows_field_errors_schema_errors_and_form_wide_errors(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt(ASKED, SCHEMA, graph=graph)
        sheet = {**sheet_of(reviewer, item), "answer-amount": ["0"], "answer-seats": ["12"]}
        page = text_of(press(reviewer, item, "approve", sheet))
        assert "Ensure this value is greater than or equal to 1." in page
        assert "Must be at most 9." in page
        sheet["answer-seats"] = ["3"]
        assert "Seats are sold in pairs." in text_of(press(reviewer, item, "approve", sheet))
        assert not Decision.objects.exists()

    def test_custom_form_for_interrupt_without_schema_saves_the_edited_payload(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt(ASKED, graph=graph)
        sheet = {**sheet_of(reviewer, item), "answer-seats": ["2"]}
        assert press(reviewer, item, "edit", sheet).status_code == 302
        assert Decision.objects.get().value == {**ASKED, "seats": 2}

    def test_custom_form_with_stale_digest_returns_409_with_typed_amount(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt(ASKED, SCHEMA, graph=graph)
        sheet = {**sheet_of(reviewer, item), "answer-amount": ["77.77"], "digest": ["other"]}
        response = press(reviewer, item, "approve", sheet)
        assert response.status_code == 409
        assert "77.77" in text_of(response)

    def test_custom_form_registered_for_a_node_is_not_used_for_another_node(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt(ASKED, SCHEMA, graph=graph, node="other")
        assert "answer/amount" in sheet_of(reviewer, item)


def test_review_policy_form_that_is_neither_class_nor_path_raises_type_error() -> None:
    with pytest.raises(TypeError, match="A form must be a class or a dotted path"):
        ReviewPolicy(forms={"ask": 7})


class TestTemplate:
    @pytest.fixture(autouse=True)
    def folder(self, settings: Any, tmp_path: Path) -> None:
        own = tmp_path / "hitl_django" / "requests"
        (own / "shop").mkdir(parents=True)
        (own / "shop" / "ask.html").write_text(
            "<p class=own>{{ payload.name }} of {{ item.graph }}"
        )
        (own / "shop.html").write_text("<p class=general>{{ payload.name }}")
        (tmp_path / "outside.html").write_text("outside")
        [engine] = settings.TEMPLATES
        settings.TEMPLATES = [{**engine, "DIRS": [tmp_path]}]

    def test_template_named_after_graph_and_node_renders_the_request_page_of_the_node(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"name": "<b>Dana</b>"}, graph="shop", node="ask")
        assert "<p class=own>&lt;b&gt;Dana&lt;/b&gt; of shop" in text_of(
            reviewer.get(page_of(item))
        )

    def test_template_named_after_graph_and_node_renders_the_spot_check_page(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"name": "<b>Dana</b>"}, graph="shop", node="ask", status="decided")
        made = Decision.objects.create(
            interrupt=item, version=1, type="approve", value=True, via="admin",
            request_digest="1", payload_digest="1",
        )  # fmt: skip
        look = SpotCheck.objects.create(interrupt=item, decision=made)
        page = text_of(reviewer.get(page_of(look, "spotcheck")))
        assert "<p class=own>&lt;b&gt;Dana&lt;/b&gt; of shop" in page

    def test_template_named_after_graph_renders_requests_of_nodes_without_template(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"name": "Dana"}, graph="shop", node="check")
        assert "<p class=general>Dana" in text_of(reviewer.get(page_of(item)))

    @pytest.mark.parametrize("graph", ["other", "../../outside", "..", "shop/../../../outside"])
    def test_graph_name_with_path_segments_loads_no_template_from_another_directory(
        self, reviewer: Client, graph: str
    ) -> None:
        item = make_interrupt({"name": "Dana"}, graph=graph, node="ask")
        page = text_of(reviewer.get(page_of(item)))
        assert '<span class="hitl-text hitl-text">Dana</span>' in page
