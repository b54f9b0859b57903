"""The form for a response on a page of a project."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict

from hitl_django.dialects import UNSET
from hitl_django.engine.payload import check_payload, list_formats
from hitl_django.forms import ResponseForm, form_for
from hitl_django.models import Interrupt
from tests.admin.conftest import make_interrupt

pytestmark = pytest.mark.django_db

DELIVERY = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 9},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "minLength": 3}},
            "required": ["street"],
        },
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    },
    "required": ["seats", "address"],
}
TWO_CALLS = {
    "action_requests": [
        {"name": "send", "args": {"to": "a"}},
        {"name": "drop", "args": {"table": "b"}},
    ],
    "review_configs": [
        {"action_name": name, "allowed_decisions": ["approve", "edit", "reject"]}
        for name in ("send", "drop")
    ],
}


def submit(interrupt: Interrupt, **values: str) -> ResponseForm:
    """Submit the form as a browser does, with these values changed."""
    form = form_for(interrupt)
    data = QueryDict(mutable=True)
    for bound in form:
        value = bound.value()
        if value not in (None, False):
            data[bound.html_name] = str(value)
    data.update(values)
    return form_for(interrupt, data)


def test_form_for_interrupt_with_schema_has_schema_fields_and_returns_decide_arguments() -> None:
    item = make_interrupt({"title": "When?"}, DELIVERY)
    form = form_for(item)
    assert [str(bound.label) for bound in form.visible_fields()] == [
        *("Day", "Seats", "Address: Street", "Lines 1: Name")
    ]
    sent = submit(item, **{"answer/seats": "2", "answer/address/street": "Elm 1"})
    assert sent.is_valid(), sent.errors
    assert sent.cleaned_data == {
        "type": "respond",
        "value": {"seats": 2, "address": {"street": "Elm 1"}},
        "reason": "",
        "key": sent.data["key"],
        "digest": item.payload_digest,
        "version": 1,
    }


def test_response_form_shows_errors_for_missing_and_invalid_values_at_their_fields() -> None:
    item = make_interrupt({"title": "When?"}, DELIVERY)
    sent = submit(item, **{"answer/seats": "12", "answer/address/street": "El"})
    assert not sent.is_valid()
    assert sorted(sent.errors) == ["answer/address/street", "answer/seats"]
    html = sent.as_div()
    assert sent["answer/seats"].errors == sent.errors["answer/seats"]
    assert html.count("errorlist") == 2
    assert 'aria-invalid="true"' in html
    assert submit(item).errors["answer/seats"] == ["This field is required."]


def test_response_form_renders_each_input_once_in_each_form_layout_of_django() -> None:
    form = form_for(make_interrupt({"title": "When?"}, DELIVERY))
    for html in (str(form), form.as_div(), form.as_p(), form.as_table(), form.as_ul()):
        names = re.findall(r'name="([^"]+)"', html)
        assert sorted(names) == sorted({*names})
        assert {"digest", "version", "key", "answer/seats", "answer/lines?rows"} <= {*names}


def test_response_form_add_rows_button_adds_rows_and_keeps_entered_values() -> None:
    item = make_interrupt({"title": "When?"}, DELIVERY)
    assert form_for(item).lists == [("answer/lines", "Lines")]
    more = submit(item, more="answer/lines", **{"answer/seats": "many"})
    assert (more.is_valid(), more.errors) == (False, {})
    assert more["answer/seats"].value() == "many"
    assert more["answer/lines?rows"].value() == 4
    assert more["answer/lines/3/name"].label == "Lines 4: Name"


def test_form_for_approval_lets_the_user_choose_a_decision_and_turns_changes_into_an_edit() -> None:
    item = make_interrupt({"title": "Pay?", "cents": 120})
    form = form_for(item)
    assert [value for value, _label in form.decisions][-1] == "reject"
    assert submit(item).errors == {"decision": ["Choose a decision to submit."]}
    assert submit(item, decision="fire").errors.keys() == {"decision"}

    approved = submit(item, decision="approve")
    assert approved.is_valid(), approved.errors
    assert (approved.cleaned_data["type"], approved.cleaned_data["value"]) == ("approve", UNSET)

    edited = submit(item, decision="approve", **{"answer/cents": "90"})
    assert edited.is_valid(), edited.errors
    assert edited.cleaned_data["type"] == "edit"
    assert edited.cleaned_data["value"]["cents"] == 90

    rejected = submit(item, decision="reject", reason="Too much", **{"answer/cents": "x"})
    assert rejected.is_valid(), rejected.errors
    assert rejected.cleaned_data["reason"] == "Too much"

    reply = submit(item, decision="respond")
    assert reply.errors == {"reply": ["Enter a response."]}


def test_response_form_for_several_actions_has_a_decision_field_per_action() -> None:
    item = make_interrupt(TWO_CALLS)
    form = form_for(item)
    assert str(form["action/0-decision"].label) == "Send: Decision"
    sent = submit(
        item,
        decision="each",
        **{"action/0-decision": "approve", "action/1-decision": "reject"},
        **{"action/1-message": "No"},
    )
    assert sent.is_valid(), sent.errors
    decided = sent.cleaned_data["value"]
    assert [one["type"] for one in decided] == ["approve", "reject"]
    missing = submit(item, decision="each", **{"action/0-decision": "approve"})
    assert "action/1-decision" in missing.errors
    assert submit(item, decision="approve").is_valid()


def test_response_form_submitted_without_version_is_stale() -> None:
    item = make_interrupt({"title": "Pay?"}, {"type": "string"})
    sent = form_for(item, QueryDict("answer=yes"))
    assert sent.is_valid(), sent.errors
    assert sent.is_stale()
    assert sent.cleaned_data["version"] == 0


@pytest.mark.parametrize("schema", [True, {"type": "boolean"}, {"enum": ["a", "b"]}, None])
@pytest.mark.parametrize("payload", ["Go?", {}, [1], None, {"why": "x", "n": None}])
def test_form_for_any_payload_and_schema_renders(payload: Any, schema: Any) -> None:
    form = form_for(make_interrupt(payload, schema if schema is not True else {}))
    assert form.as_div()
    assert form.decisions


TYPED = {
    "title": "Refund?",
    "amount": Decimal("1249.90"),
    "order": UUID(int=7),
    "day": date(2026, 1, 31),
    "lines": [{"price": Decimal("9.50"), "sku": "12"}],
}


def test_form_for_payload_with_python_types_has_fields_of_these_types() -> None:
    item = make_interrupt(check_payload(TYPED), payload_formats=list_formats(TYPED))
    names = ["/amount", "/order", "/day", "/lines/0/price", "/lines/0/sku"]
    fields = [form_for(item).fields[f"answer{name}"] for name in names]
    assert [type(field).__name__ for field in fields] == [
        "DecimalField", "UUIDField", "DateField", "DecimalField", "TextField"
    ]  # fmt: skip
    changed = {
        "answer/amount": "1200",
        "answer/day": "2026-02-01",
        "answer/order": f"{UUID(int=8)}",
    }
    form = submit(item, decision="edit", **changed)
    assert form.is_valid()
    assert form.cleaned_data["value"] == {
        **check_payload(TYPED), "amount": "1200", "order": str(UUID(int=8)), "day": "2026-02-01",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"), [("amount", "a lot"), ("order", "12"), ("day", "tomorrow")]
)
def test_form_for_payload_with_python_types_rejects_values_of_other_types(
    name: str, text: str
) -> None:
    item = make_interrupt(check_payload(TYPED), payload_formats=list_formats(TYPED))
    form = submit(item, decision="edit", **{f"answer/{name}": text})
    assert list(form.errors) == [f"answer/{name}"]
