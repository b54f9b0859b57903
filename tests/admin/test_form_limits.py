"""Limits of forms and the cost of rejecting a form, compared with the limits of the API."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from hitl_django.api.parsers import BodyLimits, MalformedBody, decode_object
from hitl_django.conf import hitl
from hitl_django.forms import MISSING, AnswerForm, read_shape
from hitl_django.forms.json_input import from_json
from hitl_django.json_text.strict_json import MAX_INTEGER_DIGITS

SCHEMAS: dict[str, Any] = {
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "json": {},
    "lines": {"type": "array", "items": {"type": "integer"}},
}
MOST, MORE = "9" * MAX_INTEGER_DIGITS, "9" * (MAX_INTEGER_DIGITS + 1)
TOO_LONG = "Integers are limited to 100 digits."


def form_of(schema: Any, text: str, original: Any = MISSING) -> AnswerForm:
    whole = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    start = MISSING if original is MISSING else {"it": original}
    return AnswerForm(read_shape(whole), start, {"answer/it": text})


def api_takes(text: str) -> Any:
    return decode_object(b'{"value": %s}' % text.encode(), BodyLimits())["value"]


@pytest.mark.promise("P21")
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_response_form_and_api_have_equal_digit_limit_for_integers(kind: str, sign: str) -> None:
    form = form_of(SCHEMAS[kind], sign + MOST)
    assert form.is_valid(), form.errors
    number = api_takes(sign + MOST)
    assert form.answer == {"it": [number] if kind == "lines" else number}
    form = form_of(SCHEMAS[kind], sign + MORE)
    assert not form.is_valid()
    assert TOO_LONG in str(form.errors)
    with pytest.raises(MalformedBody) as refused:
        api_takes(sign + MORE)
    assert [fault.detail for fault in refused.value.faults] == [TOO_LONG]


@pytest.mark.parametrize("text", ["0." + "3" * 600, "1" * 200 + ".5", "1.5e300"])
def test_form_accepts_decimals_and_exponents_beyond_the_integer_digit_limit(text: str) -> None:
    form = form_of(SCHEMAS["number"], text)
    assert form.is_valid()
    assert form.answer == {"it": api_takes(text)}


def test_form_round_trips_payload_integer_beyond_the_digit_limit() -> None:
    number = int("9" * 150)
    form = form_of(SCHEMAS["integer"], str(number), number)
    assert form.is_valid()
    assert form.answer == {"it": number}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.promise("P21")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 2_000_000, id="digits"),
        pytest.param("0." + "9" * 2_000_000, id="decimals"),
        pytest.param("1e" + "9" * 2_000_000, id="exponent"),
        pytest.param("[" * 2_000_000, id="brackets"),
        pytest.param(nested(1_000_000), id="levels"),
        pytest.param(
            "{" + ",".join(f'"{n}":1' for n in range(150_000)) + ',"149999":1}', id="keys twice"
        ),
        pytest.param("[" + "1," * 1_000_000 + "]", id="items"),
        pytest.param("1\n" * 1_000_000, id="lines"),
        pytest.param("x\n" * 1_000_000, id="wrong lines"),
        pytest.param(json.dumps("\\" * 1_000_000), id="backslashes"),
    ],
)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_form_field_with_two_megabytes_is_read_or_rejected_within_two_seconds(
    kind: str, text: str
) -> None:
    began = time.process_time()
    form = form_of(SCHEMAS[kind], text, [7] * 500 if kind == "lines" else MISSING)
    if not form.is_valid():
        assert len(str(form.errors)) < 10_000
    assert time.process_time() - began < 2


def test_list_field_accepts_at_most_response_max_items_lines() -> None:
    most = hitl.RESPONSE_MAX_ITEMS
    assert form_of(SCHEMAS["lines"], "1\n" * most).is_valid()
    form = form_of(SCHEMAS["lines"], "1\n" * (most + 1))
    assert f"Enter at most {most} lines." in str(form.errors)


def test_list_field_with_100_invalid_lines_shows_the_first_20_errors() -> None:
    errors = form_of(SCHEMAS["lines"], "x\n" * 100).errors["answer/it"]
    assert len(errors) == 20
    assert errors[0] == "Line 1: Enter a whole number, for example 12."


def test_from_json_with_duplicate_keys_names_the_first_duplicate_key() -> None:
    with pytest.raises(ValueError, match="duplicate key 'a'"):
        from_json('{"a": 1, "b": 1, "c": 1, "b": 2, "a": 3}')
