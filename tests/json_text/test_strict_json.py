"""JSON text is read in one way or refused, and JSON pointers lead where they are said to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.json_text.json_pointer import format_pointer, parse_pointer
from hitl_django.json_text.strict_json import StrictJSONError, collect_violations, parse_strict


@pytest.mark.parametrize(
    ("text", "rule", "path"),
    [
        ('{"a": {"b": 1, "b": 2}}', "duplicate_key", ("a", "b")),
        ("[1, [Infinity]]", "not_a_number", (1, 0)),
        ('{"a": [1e400]}', "number_out_of_range", ("a", 0)),
        ("-1234", "integer_too_long", ()),
    ],
)
def test_first_violation_is_raised_with_its_path(
    text: str, rule: str, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(StrictJSONError) as caught:
        parse_strict(text, max_digits=3)
    assert (caught.value.violation.rule, caught.value.violation.path) == (rule, path)
    assert str(caught.value) == str(caught.value.violation)


def test_integer_digits_are_limited() -> None:
    assert parse_strict("[-123, 999]", max_digits=3) == [-123, 999]
    assert parse_strict("1234") == 1234


def test_invalid_or_deeply_nested_json_is_a_value_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_strict("{")
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_strict("[" * 100_000)


def test_unstorable_json_is_rejected_on_request() -> None:
    text = r'{"\u0000": "x", "y": ["\ud800"]}'
    assert collect_violations(text)[1] == []
    found = collect_violations(text, storable=True)[1]
    assert [(each.rule, each.path) for each in found] == [
        ("unstorable_key", ("\x00",)),
        ("unstorable_text", ("y", 0)),
    ]


@given(st.lists(st.text("ab/~01", max_size=4)))
def test_pointer_round_trips(parts: list[str]) -> None:
    assert parse_pointer(format_pointer(parts)) == parts
