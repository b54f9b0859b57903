"""Validation messages in plain words and in the user's language, and supported formats."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hitl_django.json_text import text_formats
from hitl_django.json_text.json_schema import find_faults
from hitl_django.json_text.reasons import ValidationMessage, describe_limits, say


@pytest.mark.parametrize(
    ("schema", "value", "english", "german"),
    [
        ({"type": "integer"}, "x", "must be an integer", "Muss eine ganze Zahl sein."),
        (
            {"minimum": 1, "maximum": 99},
            100,
            "must be between 1 and 99",
            "Muss zwischen 1 und 99 liegen.",
        ),
        ({"maximum": 1.5}, 2, "must be at most 1.5", "Darf höchstens 1,5 sein."),
        ({"minimum": 0.0}, -1, "must be at least 0", "Muss mindestens 0 sein."),
        (
            {"minItems": 2},
            [1],
            "must have at least 2 items, but has 1",
            "Muss mindestens 2 Einträge haben, hat aber 1.",
        ),
        (
            {"minLength": 1},
            "",
            "must have at least 1 character, but has 0",
            "Muss mindestens 1 Zeichen haben, hat aber 0.",
        ),
        ({"enum": ["a", 1]}, 2, "must be one of: a, 1", "Muss einer dieser Werte sein: a, 1."),
        ({"multipleOf": 5}, 7, "must be a multiple of 5", "Muss ein Vielfaches von 5 sein."),
        (
            {"uniqueItems": True},
            [1, 1],
            "contains duplicates",
            "Enthält Duplikate.",
        ),
        (
            {"format": "email"},
            "dana",
            "must be an email address, for example dana@example.com",
            "Muss eine E-Mail-Adresse sein, zum Beispiel dana@example.com.",
        ),
    ],
)
def test_schema_fault_is_described_in_english_and_german(
    schema: Any, value: Any, english: str, german: str
) -> None:
    with translation.override("de"):
        [(_, reason)] = find_faults(schema, value)
        assert reason == english
        assert say(reason) == german


def test_schema_fault_without_translation_retains_its_text() -> None:
    assert say("is odd") == "is odd"
    assert find_faults({"maxProperties": 0}, {"a": 1}) != []


class Card(BaseModel):
    kind: Literal["card"]
    number: str = Field(min_length=4)


class Cash(BaseModel):
    kind: Literal["cash"]
    cents: int = Field(ge=0)


class Payment(BaseModel):
    by: Card | Cash
    seats: int | None = Field(None, ge=1, le=9)


def test_union_fault_is_reported_for_the_branch_the_value_matches_best() -> None:
    found = find_faults(Payment.model_json_schema(), {"by": {"kind": "cash", "cents": -1}})
    assert found == [("/by/cents", "must be at least 0")]
    found = find_faults(
        Payment.model_json_schema(), {"by": {"kind": "card", "number": "12345"}, "seats": 10}
    )
    assert found == [("/seats", "must be between 1 and 9")]
    found = find_faults(Payment.model_json_schema(), {"by": 7})
    assert found == [("/by", "does not match any allowed schema")]


def test_describe_limits_omits_limits_without_effect_and_invalid_limits() -> None:
    assert describe_limits({"minLength": 1, "minItems": 0, "multipleOf": 1}) == []
    assert describe_limits({"minimum": "low", "maxLength": True}) == []


def test_schema_fault_message_truncates_long_enum_values() -> None:
    [(_, reason)] = find_faults({"enum": ["x" * 500] * 500}, "y")
    assert len(reason) < 150
    assert isinstance(reason, ValidationMessage)


VALID = {
    "date": ["2026-01-31"],
    "date-time": ["2026-01-31T14:30:00Z", "2026-01-31T14:30:00.125+02:00", "2026-01-31 14:30"],
    "date-time-local": ["2026-01-31T14:30:00", "2026-01-31 14:30"],
    "duration": ["P3DT4H", "PT0.5S", "-P1D", "P2W"],
    "email": ["dana@example.com", "d+x@mail.example.co.uk"],
    "hostname": ["example.com", "a", "xn--mller-kva.de"],
    "idn-email": ["dänä@müller.de"],
    "idn-hostname": ["müller.de"],
    "ipv4": ["192.0.2.1"],
    "ipv6": ["2001:db8::1", "::"],
    "iri": ["https://müller.de/straße"],
    "json-pointer": ["", "/a/b~0~1"],
    "time": ["14:30", "14:30:00.5", "14:30:00Z", "03:04:05.000060"],
    "uri": ["https://example.com/a?b=%20#c", "mailto:dana@example.com", "urn:isbn:1"],
    "uri-reference": ["../a?b", "", "https://example.com"],
    "uuid": ["8f14e45f-ceea-467f-a0e6-1d6c1a5d0f3b"],
}
INVALID = {
    "date": ["31.01.2026", "2026-02-30", "2026-1-1", "x"],
    "date-time": ["2026-01-31", "2026-01-31T25:00:00Z", "1700000000", "T"],
    "date-time-local": ["2026-01-31T14:30:00Z", "2026-01-31T14:30-05:00", "2026-01-31"],
    "duration": ["P", "PT", "3 days", "P1"],
    "email": ["dana", "dana@", "@example.com", "a b@example.com"],
    "hostname": ["", "-a.de", "a..b", "a_b", "a" * 64, "müller.de"],
    "idn-email": ["dänä", "ä ö@müller.de", "@müller.de"],
    "idn-hostname": ["", "a b.de"],
    "ipv4": ["256.1.1.1", "1.2.3", "01.2.3.4"],
    "ipv6": ["fe80::1%eth0", "1.2.3.4", ":::"],
    "iri": ["müller.de", "https://a b.de"],
    "json-pointer": ["a", "/a~2"],
    "time": ["25:00", "2 pm", "14"],
    "uri": ["example.com", "https://", "https://a b", "https://müller.de", "http://[", "a:%zz"],
    "uri-reference": ["a b", "ü"],
    "uuid": ["8f14e45fceea467fa0e61d6c1a5d0f3b", "x" * 36],
}


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, many in VALID.items() for t in many])
def test_find_faults_reports_no_fault_for_valid_text_of_each_format(name: str, text: str) -> None:
    assert find_faults({"format": name}, text) == []


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, many in INVALID.items() for t in many])
def test_find_faults_reports_one_fault_for_invalid_text_of_each_format(
    name: str, text: str
) -> None:
    [(pointer, reason)] = find_faults({"format": name}, text)
    assert pointer == ""
    assert reason.startswith("must be ")


@given(st.sampled_from(sorted(text_formats.CHECKS)), st.text())
def test_text_format_check_of_any_text_returns_bool_without_exception(name: str, text: str) -> None:
    assert text_formats.CHECKS[name](text) in (True, False)
