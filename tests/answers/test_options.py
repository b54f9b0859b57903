"""Allowed decisions of an interrupt, and the resume value of each decision."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.answers import AnswerOptions, make_resume_value
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.json_text import json_schema
from hitl_django.json_text.sanitize import escape_invisible, escape_unstorable, make_title, shorten

BOOLEAN = {"type": "boolean"}
APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "amount": {"type": "number", "minimum": 0},
        "note": {"type": "string", "default": "none", "maxLength": 10},
        "when": {"type": "string", "format": "date"},
    },
    "required": ["approved", "amount"],
    "additionalProperties": False,
}
CHOICE = {"enum": ["a", "b"]}
ALL = ("approve", "edit", "reject", "respond")


@pytest.mark.parametrize(
    ("payload", "schema", "kind", "allowed"),
    [
        ({"a": 1}, None, "interrupt", ALL),
        ([1], None, "interrupt", ALL),
        ("text", None, "interrupt", ALL),
        (None, None, "interrupt", ("approve", "reject", "respond")),
        ({}, BOOLEAN, "interrupt", ("approve", "reject")),
        ({}, APPROVAL, "interrupt", ("approve", "edit", "reject")),
        ({}, CHOICE, "interrupt", ("respond",)),
        ({}, {"type": "object"}, "interrupt", ("respond",)),
        ({}, {}, "interrupt", ("respond",)),
        ({}, {"properties": {"approved": {"type": "string"}}}, "interrupt", ("respond",)),
        ({}, None, "breakpoint", ("approve",)),
    ],
)
def test_allowed_decisions_are_derived_from_payload_schema_and_interrupt_kind(
    payload: Any, schema: Any, kind: str, allowed: tuple[str, ...]
) -> None:
    interrupt = AnswerOptions(payload=payload, schema=schema, kind=kind)
    assert interrupt.allowed == allowed
    for type_ in {*ALL, "other"} - set(allowed):
        with pytest.raises(InvalidAnswerError, match=allowed[0]):
            make_resume_value(interrupt, type_, {})


@pytest.mark.parametrize(
    ("payload", "schema", "type_", "value", "answer"),
    [
        ({"a": 1}, None, "approve", UNSET, True),
        ({"a": 1}, None, "reject", UNSET, False),
        ({"a": 1}, None, "edit", {"a": 2}, {"a": 2}),
        ({"a": 1}, None, "respond", None, None),
        ({}, BOOLEAN, "approve", UNSET, True),
        ({}, BOOLEAN, "reject", UNSET, False),
        ({"amount": 5}, APPROVAL, "approve", UNSET,
         {"amount": 5, "note": "none", "approved": True}),
        ({"amount": 5, "other": 1}, APPROVAL, "approve", {"amount": 4.5},
         {"amount": 4.5, "note": "none", "approved": True}),
        ({"amount": 5}, APPROVAL, "reject", {"approved": True, "note": "no"},
         {"amount": 5, "note": "no", "approved": False}),
        ({"amount": 5}, APPROVAL, "edit", {"amount": 6}, {"amount": 6, "approved": True}),
        ({}, CHOICE, "respond", "b", "b"),
    ],
)  # fmt: skip
def test_make_resume_value_returns_response_for_each_decision_type(
    payload: Any, schema: Any, type_: str, value: Any, answer: Any
) -> None:
    assert make_resume_value(AnswerOptions(payload=payload, schema=schema), type_, value) == answer


@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        ({"amount": -1}, ["/amount"]),
        ({"amount": "1"}, ["/amount"]),
        ({}, ["/amount"]),
        ({"amount": 1, "when": "yesterday"}, ["/when"]),
        ({"amount": -1, "note": "far too long"}, ["/amount", "/note"]),
        ({"amount": 1, "a/b~c": 1}, [""]),
    ],
)
def test_make_resume_value_with_invalid_response_raises_invalid_answer_error_with_json_pointers(
    value: Any, pointers: list[str]
) -> None:
    with pytest.raises(InvalidAnswerError) as caught:
        make_resume_value(AnswerOptions(payload={}, schema=APPROVAL), "edit", value)
    assert [pointer for pointer, _ in caught.value.faults] == pointers


def test_json_pointer_of_schema_fault_escapes_slash_and_tilde() -> None:
    schema = {"properties": {"a/b~c": {"items": {"type": "integer"}}}}
    assert json_schema.find_faults(schema, {"a/b~c": [1, "x"]})[0][0] == "/a~1b~0c/1"


def test_response_form_starts_with_values_of_payload_and_schema_defaults() -> None:
    def started(payload: Any, schema: Any) -> Any:
        return AnswerOptions(payload=payload, schema=schema).start

    assert started({"amount": 5, "secret": 1}, APPROVAL) == {"amount": 5, "note": "none"}
    assert started("text", APPROVAL) == {"note": "none"}
    assert started({"a": 1}, None) == {"a": 1}
    assert started({}, {"type": "string", "default": "x"}) == "x"
    assert started({}, CHOICE) is None


@pytest.mark.promise("P21")
def test_backtracking_pattern_in_schema_is_matched_in_linear_time() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    # Were it tried in every way there is, that would be 2 ** 50,000: this never came to an end.
    assert json_schema.find_faults(schema, "a" * 50_000 + "b")
    assert json_schema.find_faults(schema, "aaa") == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/nowhere"},
        {"type": "nonsense"},
        {"minimum": "x"},
        {"properties": 5},
    ],
)
def test_invalid_schema_is_reported_as_schema_fault_without_exception(schema: Any) -> None:
    [(pointer, reason)] = json_schema.find_faults(schema, {"a": 1} if "properties" in schema else 5)
    assert pointer == ""
    assert "schema" in reason


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a(?=b)"},
        {"pattern": "["},
        {"patternProperties": {"a(?=b)": {}}},
        {"patternProperties": {"a": {}}, "unevaluatedProperties": False},
    ],
)
def test_unsupported_pattern_in_schema_is_reported_as_schema_fault(schema: Any) -> None:
    value = {"a": 1} if "patternProperties" in schema else "anything"
    [(pointer, reason)] = json_schema.find_faults(schema, value)
    assert pointer == ""
    assert "schema" in reason


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        (r"^(?=.*\d)(?!.*\s).{3,}$", ["ab1"], ["abc", "a 1", "a1"]),
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", ["1.5", "-0"], ["", "-", ".", "1a"]),
        (r"^(?![)a])b", ["b"], ["a", ")"]),
        (r"^(?!a)", ["b", ""], ["a"]),
    ],
)
def test_lookaheads_at_the_start_of_schema_pattern_are_applied(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    faulty = [
        text for text in fitting + others if json_schema.find_faults({"pattern": pattern}, text)
    ]
    assert faulty == others


def test_lookahead_inside_alternative_of_schema_pattern_is_reported_as_schema_fault() -> None:
    [(_, reason)] = json_schema.find_faults({"pattern": "^(?=a)b|c"}, "c")
    assert "schema" in reason


@pytest.mark.parametrize(
    ("schema", "value", "pointers"),
    [
        ({"patternProperties": {"^n_": {"type": "number"}}}, {"n_a": "x", "b": "x"}, ["/n_a"]),
        (
            {"patternProperties": {"^(x+)+$": {}}, "additionalProperties": False},
            {"x" * 40: 1, "x" * 40 + "!": 1},
            ["/" + "x" * 40 + "!"],
        ),
        (
            {
                "properties": {"a": {}},
                "patternProperties": {"^b": {}},
                "additionalProperties": {"type": "number"},
            },
            {"a": "x", "b": "x", "c": "x", "d": 1},
            ["/c"],
        ),
        ({"items": [{"type": "number"}, {"type": "string"}]}, ["x", 1, None], ["/0", "/1"]),
        ({"items": [{}], "additionalItems": False}, [1, 2], [""]),
        ({"items": [{}], "additionalItems": {"type": "string"}}, [1, 2, "x"], ["/1"]),
        ({"items": {}, "additionalItems": False}, [1, 2], []),
        ({"items": [{"type": "string"}, {"$ref": "#/items/0"}]}, ["x", 1], ["/1"]),
        ({"dependencies": {"a": ["b"], "c": {"minProperties": 3}}}, {"a": 1, "c": 2}, ["", "/b"]),
        ({"multipleOf": 0.01}, 19.99, []),
        ({"multipleOf": 0.01}, 19.999, [""]),
        ({"multipleOf": 0.1}, 10**400, []),
        ({"multipleOf": 1e-300}, 1.5, []),
        ({"multipleOf": 3}, 9.0, []),
        ({"multipleOf": 3}, 10, [""]),
        ({"multipleOf": 3}, True, []),
    ],
)
def test_violation_of_each_schema_keyword_is_reported_with_json_pointers(
    schema: Any, value: Any, pointers: list[str]
) -> None:
    faults = json_schema.find_faults(schema, value)
    assert [pointer for pointer, _ in faults] == pointers
    assert not any("response schema" in reason for _, reason in faults)


@pytest.mark.parametrize(
    ("payload", "title"),
    [
        ({"title": "Refund?", "question": "no"}, "Refund?"),
        ({"title": " ", "question": "Really?"}, "Really?"),
        ({"title": 5, "message": "Look"}, "Look"),
        ("Go on?", "Go on?"),
        (None, "review requests a review"),
        ({"amount": 5}, "review requests a review"),
        ([1], "review requests a review"),
        ("line\none\ttwo  three", "line one two three"),
        ("a\u202eb\u200bc\x07", "a\\u202eb\\u200bc\\u0007"),
        ("👍 ünï", "👍 ünï"),
    ],
)
def test_make_title_returns_payload_text_as_one_line_with_visible_characters(
    payload: Any, title: str
) -> None:
    assert make_title(payload, "review") == title


def test_make_title_shortens_long_title_to_300_characters_at_a_word() -> None:
    cut = make_title("word " * 100, "n")
    assert len(cut) <= 300
    assert cut.endswith("word…")
    assert len(make_title("x" * 1000, "n")) == 300
    assert shorten("short") == "short"
    assert len(make_title("", "n" * 1000)) == 300


def test_escape_functions_replace_unstorable_and_invisible_characters_with_escapes() -> None:
    assert escape_unstorable("a\x00b\ud800\nc") == "a\\u0000b\\ud800\nc"
    assert escape_invisible("\U000e0041") == "\\U000e0041"
