"""The parser of JSON bodies: exact values, and rejection of ambiguous JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.api.parsers import (
    BodyError,
    BodyLimits,
    MalformedBody,
    StrictArrayParser,
    UnstorableBody,
    decode_object,
)
from hitl_django.engine.errors import PayloadLimitError

LIMITS = BodyLimits(size=1024 * 1024, depth=8, items=20, digits=10)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@given(st.dictionaries(texts, values))
def test_json_parser_round_trips_any_json_object(value: dict[str, Any]) -> None:
    assert decode_object(json.dumps(value).encode(), BodyLimits()) == value
    assert decode_object(json.dumps(value, ensure_ascii=False).encode(), BodyLimits()) == value


@given(st.binary(max_size=200) | st.text('[]{},:"\\u0d8e1 -', max_size=80).map(str.encode))
def test_json_parser_parses_or_rejects_any_bytes(raw: bytes) -> None:
    try:
        assert isinstance(decode_object(raw, LIMITS), dict)
    except (BodyError, PayloadLimitError):
        pass


@pytest.mark.parametrize(
    ("raw", "code", "pointer"),
    [
        (b"", "not_json", ""),
        (b"{", "not_json", ""),
        (b"{} {}", "not_json", ""),
        (b"{'a': 1}", "not_json", ""),
        (b'{"a": 1,}', "not_json", ""),
        (b'{"a": 01}', "not_json", ""),
        (b'{"a": "\n"}', "not_json", ""),
        (b'{"a": "\\x"}', "not_json", ""),
        (b'{"a": "unfinished', "not_json", ""),
        (b'{"a": "unfinished\\', "not_json", ""),
        (b"null", "not_object", ""),
        (b"[]", "not_object", ""),
        (b'"text"', "not_object", ""),
        (b"12", "not_object", ""),
        (b"\xff\xfe{\x00}\x00", "not_utf8", ""),
        (b'{"a": "\xed\xa0\x80"}', "not_utf8", ""),
        (b'\xef\xbb\xbf{"a": 1}', "not_json", ""),
        (b"NaN", "not_json", ""),
        (b'{"a": [NaN]}', "not_json", "/a/0"),
        (b'{"a": -Infinity}', "not_json", "/a"),
        (b'{"a": 1, "a": 2}', "duplicate_key", "/a"),
        (b'{"a": {"b/c": 1, "b/c": 1}}', "duplicate_key", "/a/b~1c"),
        (b'{"a": 1, "\\u0061": 2}', "duplicate_key", "/a"),
        (b'{"a": {"~": 12345678901}}', "number_too_long", "/a/~0"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number_too_long", "/a"),
        (b"9" * 5000, "number_too_long", ""),
    ],
)
def test_json_parser_rejects_non_standard_json_with_code_and_pointer(
    raw: bytes, code: str, pointer: str
) -> None:
    with pytest.raises(MalformedBody) as caught:
        decode_object(raw, LIMITS)
    assert [(fault.code, fault.pointer) for fault in caught.value.faults] == [(code, pointer)]


def test_array_parser_accepts_only_arrays() -> None:
    assert StrictArrayParser().decode(b'[{"a": 1}]', LIMITS) == [{"a": 1}]
    with pytest.raises(MalformedBody) as caught:
        StrictArrayParser().decode(b"{}", LIMITS)
    assert [(fault.code, fault.pointer) for fault in caught.value.faults] == [("not_array", "")]


@pytest.mark.parametrize(
    ("raw", "code", "pointer"),
    [
        (b'{"a": "\\u0000"}', "bad_character", "/a"),
        (b'{"a": ["", "x\\ud800y"]}', "bad_character", "/a/1"),
        (b'{"a": "\\udc00\\ud800"}', "bad_character", "/a"),
        (b'{"\\u0000": 1}', "bad_character", "/\\u0000"),
        (b'{"a": {"\\udfff": 1}}', "bad_character", "/a/\\udfff"),
        (b'{"a": 1e400}', "number_out_of_range", "/a"),
        (b'{"a": -1e400}', "number_out_of_range", "/a"),
    ],
)
def test_json_parser_rejects_nul_and_lone_surrogates_with_pointer(
    raw: bytes, code: str, pointer: str
) -> None:
    with pytest.raises(UnstorableBody) as caught:
        decode_object(raw, LIMITS)
    assert [(fault.code, fault.pointer) for fault in caught.value.faults] == [(code, pointer)]


def test_json_parser_reports_all_faults_of_a_body_together() -> None:
    with pytest.raises(MalformedBody) as caught:
        decode_object(b'{"a": "\\u0000", "b": NaN, "c": 1e999}', LIMITS)
    assert [fault.pointer for fault in caught.value.faults] == ["/a", "/b", "/c"]


def test_json_parser_reads_surrogate_pair_as_one_character() -> None:
    assert decode_object(b'{"a": "\\ud83d\\ude00"}', LIMITS) == {"a": "😀"}


def test_json_parser_ignores_brackets_and_commas_inside_strings_for_limits() -> None:
    text = '[[[[{{{{,,,,\\"[[[[' * 100
    assert decode_object(json.dumps({"a": text}).encode(), LIMITS) == {"a": text}


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        (b'{"a": ' + b"[" * 8 + b"]" * 8 + b"}", 8),
        (b"[" * 100_000, 8),
        (b'{"a":' * 100_000, 8),
        (b'{"a": [' + b"1," * 30 + b"1]}", 20),
        (b'{"a": [' + b"[]," * 30 + b"1]}", 20),
    ],
)
def test_json_parser_rejects_too_deep_or_too_long_json_before_parsing(
    raw: bytes, limit: int
) -> None:
    with pytest.raises(PayloadLimitError) as caught:
        decode_object(raw, LIMITS)
    assert (caught.value.limit, caught.value.found) == (limit, limit + 1)


def test_json_parser_accepts_json_exactly_at_its_limits() -> None:
    assert decode_object(b'{"a": ' + b"[" * 7 + b"]" * 7 + b"}", LIMITS)
    assert decode_object(b'{"a": [' + b"1," * 18 + b"1]}", LIMITS)


@pytest.mark.parametrize(
    "unit",
    [b'"', b'\\"', b'"\\', b"[],", b"]", b",", b'"a":', b"\\", b"9", b'{"', b'"\\ud800",', b" "],
)
def test_json_parser_reads_megabyte_of_hostile_json_within_thirty_seconds(unit: bytes) -> None:
    raw = (b'{"a":' + unit * 1_000_000)[: 1024 * 1024]
    # The time limit is one second. A quadratic parser would need hours for a million characters.
    start = time.process_time()
    with pytest.raises((BodyError, PayloadLimitError)):
        decode_object(raw, BodyLimits())
    assert time.process_time() - start < 30
