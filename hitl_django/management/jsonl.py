"""JSON Lines that start runs. Each line starts one run and is validated independently."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hitl_django.json_text.strict_json import StrictJSONError, parse_strict
from hitl_django.services import SubjectRef

#: Keys allowed in a line that contains its input under the key "input".
ENVELOPE = frozenset({"graph", "input", "key", "subject", "context", "configurable"})


class BadLine(ValueError):
    """Raised if a line is invalid. The message is the reason."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """Arguments for starting a run, read from one line."""

    graph: str
    input: Any
    key: str | None = None
    subject: SubjectRef | None = None
    context: Any = None
    configurable: Any = None


@dataclass(frozen=True, slots=True)
class StartLine:
    """A line of a file: its number, counted from 1, and its bytes."""

    number: int
    text: bytes


def read_lines(source: Iterable[bytes]) -> Iterator[StartLine]:
    """Yield the lines that are not blank.

    Lines are bytes, so that invalid UTF-8 in one line doesn't prevent reading the others.
    """
    for number, text in enumerate(source, start=1):
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")  # Remove a byte order mark.
        if text.strip():
            yield StartLine(number, text)


def parse_line(line: StartLine, graph: str | None) -> StartRequest:
    """Return the start request of a line.

    Each line is an object. If the object has the key "input" and no keys outside of ``ENVELOPE``,
    its values are the arguments of the run. Otherwise, the whole object is the input. ``graph`` is
    the graph for lines that name no graph. A line that names a different graph is invalid.

    Raises:
        BadLine: if the line is invalid.
    """
    value = _parse_json(line.text)
    if not isinstance(value, dict):
        raise BadLine(f"expected an object, got {_KINDS[type(value)]}")
    unknown = sorted(value.keys() - ENVELOPE)
    if "input" in value and unknown and "graph" in value and graph is None:
        known = ", ".join(sorted(ENVELOPE))
        raise BadLine(f"unknown key {unknown[0]!r}; the keys are {known}")
    if "input" not in value or unknown:
        return StartRequest(_choose_graph(None, graph), value)

    key = value.get("key")
    if key is not None and (not isinstance(key, str) or not key):
        raise BadLine('"key" must be a non-empty string')
    return StartRequest(
        _choose_graph(value.get("graph"), graph),
        value["input"],
        key,
        _read_subject(value.get("subject")),
        value.get("context"),
        value.get("configurable"),
    )


def _read_subject(value: object) -> SubjectRef | None:
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"type", "id"}:
        raise BadLine('"subject" must be an object with "type" and "id"')
    for name in ("type", "id"):
        if not isinstance(value[name], str):
            raise BadLine(f'"{name}" of "subject" must be a string')
    return SubjectRef(value["type"], value["id"])


def _choose_graph(own: object, given: str | None) -> str:
    if own is None and given is None:
        raise BadLine('no graph: add "graph" to the line or pass it on the command line')
    if own is None:
        return str(given)
    if not isinstance(own, str):
        raise BadLine('"graph" must be a string')
    if given is not None and own != given:
        raise BadLine(f"graph {own!r} doesn't match the command's graph {given!r}")
    return own


_KINDS = {
    list: "a list",
    str: "a string",
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
        raise BadLine(f"invalid JSON: {error.msg} at column {error.colno}") from None
    except StrictJSONError as error:
        raise BadLine(str(error)) from None
    except ValueError as error:  # The line contains a number with thousands of digits.
        raise BadLine(f"invalid JSON: {error}") from None
