"""JSON Lines with requests to start runs: one per line, each good or bad by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hitl_django.json_text.strict_json import StrictJSONError, parse_strict

#: What a line that wraps its input may say besides it.
ENVELOPE = frozenset({"graph", "input", "key"})


class BadLine(ValueError):
    """A line that asks for no run; the message says why."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A request to start a run, as one line makes it."""

    graph: str
    input: Any
    key: str | None = None


@dataclass(frozen=True, slots=True)
class StartLine:
    """One line of a file: its number from 1, its bytes as they stand there."""

    number: int
    text: bytes


def read_lines(source: Iterable[bytes]) -> Iterator[StartLine]:
    """Yields the lines that are not blank.

    Bytes and not text, so that a line that isn't UTF-8 is one bad line and not the end of the file.
    """
    for number, text in enumerate(source, start=1):
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")  # a byte order mark
        if text.strip():
            yield StartLine(number, text)


def parse_line(line: StartLine, graph: str | None) -> StartRequest:
    """Returns the request of a line; raises BadLine where it makes none.

    A line is the input itself, or ``{"input": …}`` with ``"graph"`` and ``"key"`` as it likes and
    nothing else. ``graph`` is for lines that name none; one that names another is refused, because
    a file given for one graph is hardly meant to start runs of a second.
    """
    value = _parse_json(line.text)
    if not isinstance(value, dict):
        raise BadLine(f"an object is needed, this is {_KINDS[type(value)]}")
    if "input" not in value or not value.keys() <= ENVELOPE:
        return StartRequest(_choose_graph(None, graph), value)

    key = value.get("key")
    if key is not None and (not isinstance(key, str) or not key):
        raise BadLine('"key" has to be a text that isn\'t empty')
    return StartRequest(_choose_graph(value.get("graph"), graph), value["input"], key)


def _choose_graph(own: object, given: str | None) -> str:
    if own is None and given is None:
        raise BadLine(
            'the line names no graph: give one as "graph", or all of them on the command line'
        )
    if own is None:
        return str(given)
    if not isinstance(own, str):
        raise BadLine('"graph" has to be a text')
    if given is not None and own != given:
        raise BadLine(f"the line is for graph {own!r}, the command for {given!r}")
    return own


_KINDS = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _parse_json(text: bytes) -> Any:
    try:
        return parse_strict(text.decode())
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
    except StrictJSONError as error:
        raise BadLine(str(error)) from None
    except ValueError as error:  # a number with thousands of digits
        raise BadLine(f"not JSON: {error}") from None
