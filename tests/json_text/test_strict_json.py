"""Unambiguous parsing of JSON text, and JSON pointers."""

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
def test_parse_strict_raises_first_violation_with_rule_and_path(
    text: str, rule: str, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(StrictJSONError) as caught:
        parse_strict(text, max_digits=3)
    assert (caught.value.violation.rule, caught.value.violation.path) == (rule, path)
    assert str(caught.value) == str(caught.value.violation)


def test_parse_strict_limits_the_number_of_integer_digits() -> None:
    assert parse_strict("[-123, 999]", max_digits=3) == [-123, 999]
    assert parse_strict("1234") == 1234


def test_parse_strict_of_invalid_or_deeply_nested_json_raises_value_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_strict("{")
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_strict("[" * 100_000)


def test_collect_violations_with_storable_reports_nul_and_surrogates_with_path() -> None:
    text = r'{"\u0000": "x", "y": ["\ud800"]}'
    assert collect_violations(text)[1] == []
    found = collect_violations(text, storable=True)[1]
    assert [(each.rule, each.path) for each in found] == [
        ("unstorable_key", ("\x00",)),
        ("unstorable_text", ("y", 0)),
    ]


@given(st.lists(st.text("ab/~01", max_size=4)))
def test_formatted_json_pointer_is_parsed_to_the_same_parts(parts: list[str]) -> None:
    assert parse_pointer(format_pointer(parts)) == parts
