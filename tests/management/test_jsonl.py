"""Lines of JSON Lines files: start requests and invalid lines."""

from __future__ import annotations

import re

import pytest

from hitl_django.management.jsonl import BadLine, StartLine, StartRequest, parse_line, read_lines
from hitl_django.services import SubjectRef


def read(text: str | bytes, graph: str | None = "refund") -> StartRequest:
    return parse_line(StartLine(1, text if isinstance(text, bytes) else text.encode()), graph)


def test_jsonl_line_without_input_key_is_the_input_itself() -> None:
    assert read('{"amount": 12}') == StartRequest("refund", {"amount": 12}, None)


def test_jsonl_line_with_input_and_key_has_input_and_run_key() -> None:
    request = read('{"input": {"amount": 12}, "key": "r1"}')
    assert request == StartRequest("refund", {"amount": 12}, "r1")


def test_jsonl_line_with_subject_context_and_configurable_returns_these_values() -> None:
    request = read(
        '{"input": {}, "subject": {"type": "shop.order", "id": "7"},'
        ' "context": {"user": "ann"}, "configurable": {"tenant": "t1"}}'
    )
    subject = SubjectRef("shop.order", "7")
    expected = StartRequest("refund", {}, None, subject, {"user": "ann"}, {"tenant": "t1"})
    assert request == expected


def test_jsonl_line_with_graph_and_unknown_key_raises_error_naming_the_key() -> None:
    with pytest.raises(BadLine, match="unknown key 'subjct'; the keys are configurable"):
        read('{"graph": "refund", "input": {}, "subjct": {}}', graph=None)


def test_jsonl_line_with_input_and_other_state_fields_is_the_input_itself() -> None:
    assert read('{"input": "hello", "language": "cy"}').input == {
        "input": "hello",
        "language": "cy",
    }


def test_jsonl_line_with_graph_key_selects_the_graph() -> None:
    assert read('{"graph": "agent", "input": {}}', graph=None).graph == "agent"


def test_jsonl_line_with_null_input_has_input_none() -> None:
    assert read('{"input": null}') == StartRequest("refund", None, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"amount": 12', "invalid JSON"),
        ("[1, 2]", "got a list"),
        ('"refund"', "got a string"),
        ("null", "got null"),
        ("true", "got true or false"),
        ("12", "got a number"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"a": ' + "9" * 5000 + "}", "invalid JSON"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 8"),
        ('{"input": {}, "key": ""}', '"key" must be a non-empty string'),
        ('{"input": {}, "key": 7}', '"key" must be a non-empty string'),
        ('{"input": {}, "subject": "shop.order"}', '"subject" must be an object with "type" and'),
        ('{"input": {}, "subject": {"type": "shop.order"}}', '"subject" must be an object'),
        (
            '{"input": {}, "subject": {"type": "shop.order", "id": "7", "key": 1}}',
            '"subject" must be an object',
        ),
        ('{"input": {}, "subject": {"type": "shop.order", "id": 7}}', '"id" of "subject" must be'),
        ('{"input": {}, "graph": 7}', '"graph" must be a string'),
        (
            '{"input": {}, "graph": "agent"}',
            "graph 'agent' doesn't match the command's graph 'refund'",
        ),
    ],
)
def test_jsonl_line_with_invalid_json_or_type_raises_bad_line_with_reason(
    text: str | bytes, reason: str
) -> None:
    with pytest.raises(BadLine, match=re.escape(reason)):
        read(text)


def test_jsonl_line_without_graph_and_without_graph_argument_raises_bad_line() -> None:
    with pytest.raises(BadLine, match="no graph: add"):
        read("{}", graph=None)


def test_jsonl_blank_lines_are_counted_and_skipped() -> None:
    lines = list(read_lines([b"\xef\xbb\xbf{}\n", b"\n", b"  \r\n", b"{}"]))
    assert lines == [StartLine(1, b"{}\n"), StartLine(4, b"{}")]
