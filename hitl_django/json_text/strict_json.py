r"""Strict parsing of untrusted JSON text, which rejects ambiguous input.

``json.loads`` keeps the last of duplicate keys, parses ``1e400`` as infinity and ``"\ud800"`` as a
string that can't be encoded, and exceeds the recursion limit on deep nesting. This parser reports
each of these as a violation, with its path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from hitl_django.engine.errors import PayloadLimitError

#: The maximum number of digits of an integer in a form or in the API. Parsing time grows with the
#: square of the digits, and Python itself allows only a few thousand digits.
MAX_INTEGER_DIGITS = 100
#: The maximum number of characters of invalid input quoted in a message.
QUOTED = 80

# Matches everything up to the next bracket or comma outside a string. The possessive quantifiers
# keep the time linear on any input. Treating an unfinished string as a string has the same effect.
_STRUCTURE = re.compile(
    r'(?:[^"\[\]{},]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[\]{},]|\Z)', re.DOTALL
)
#: Characters invalid in UTF-8 or in some databases: lone surrogates and NUL.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated rule, the invalid input, and the path to it: member names and list indexes."""

    rule: Literal[
        "duplicate_key",
        "not_a_number",
        "integer_too_long",
        "nested_too_deeply",
        "number_out_of_range",
        "unstorable_text",
        "unstorable_key",
    ]
    found: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        quoted = self.found[:QUOTED]
        return {
            "duplicate_key": f"duplicate key {quoted!r}",
            "not_a_number": f"{quoted} is not a number",
            "integer_too_long": f"{quoted} has too many digits",
            "nested_too_deeply": "nested too deeply",
            "number_out_of_range": f"{quoted} is too large",
            "unstorable_text": f"{quoted!r} can't be stored",
            "unstorable_key": f"the key {quoted!r} can't be stored",
        }[self.rule]


class StrictJSONError(ValueError):
    """A JSON text violates a rule of the strict parser. ``violation`` names the rule."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


def parse_strict(text: str, *, max_digits: int | None = None) -> Any:
    """Return the value of a JSON text.

    ``max_digits`` limits the length of numbers.

    Raises:
        StrictJSONError: the text violates a rule. The error contains the first violation.
        ValueError: the text isn't JSON. The message contains the position.
    """
    try:
        value, violations = collect_violations(text, max_digits=max_digits)
    except RecursionError:
        raise StrictJSONError(Violation("nested_too_deeply", "")) from None
    if violations:
        raise StrictJSONError(violations[0])
    return value


def collect_violations(
    text: str, *, max_digits: int | None = None, storable: bool = False
) -> tuple[Any, list[Violation]]:
    """Return the value of a JSON text, and all violations in document order.

    In the value, a Violation object takes the place of each rejected part. With ``storable``,
    characters that can't be stored are also violations.

    Raises:
        json.JSONDecodeError: the text isn't JSON.
        RecursionError: the text is nested too deeply (see ``check_extent``).
    """
    is_refused = False

    def refuse(rule: Any, found: str) -> Violation:
        nonlocal is_refused
        is_refused = True
        return Violation(rule, found)

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        seen = set()
        for key, _value in pairs:
            if key in seen:
                members[key] = refuse("duplicate_key", key)
            seen.add(key)
        return members

    def read_integer(digits: str) -> int | Violation:
        if max_digits is not None and len(digits.lstrip("-")) > max_digits:
            return refuse("integer_too_long", digits)
        return int(digits)

    def read_float(digits: str) -> float | Violation:
        number = float(digits)
        return number if math.isfinite(number) else refuse("number_out_of_range", digits)

    def read_constant(name: str) -> Violation:
        return refuse("not_a_number", name)

    value = json.loads(
        text,
        object_pairs_hook=read_object,
        parse_int=read_integer,
        parse_float=read_float,
        parse_constant=read_constant,
    )
    if not (is_refused or storable):
        return value, []
    return value, list(_locate(value, (), storable))


def check_extent(text: str, *, depth: int, items: int, what: str) -> None:
    """Check the nesting depth and the number of values of a JSON text before it is parsed.

    Values are counted at all levels. The text may be invalid JSON. ``what`` names the text in the
    error message.

    Raises:
        PayloadLimitError: a limit is exceeded.
    """
    levels = values = 0
    for match in _STRUCTURE.finditer(text):
        mark = match[1]
        if mark in ("[", "{"):
            levels += 1
            if levels > depth:
                raise PayloadLimitError(
                    f"{what} is nested deeper than {depth} levels.", limit=depth, found=levels
                )
        elif mark in ("]", "}"):
            levels -= 1
            continue
        values += bool(mark)
        if values > items:
            raise PayloadLimitError(
                f"{what} contains more than {items} items.", limit=items, found=values
            )


def _locate(value: Any, path: tuple[str | int, ...], storable: bool) -> Iterator[Violation]:
    if isinstance(value, str):
        if storable and _UNSTORABLE.search(value):
            yield Violation("unstorable_text", value, path)
    elif isinstance(value, dict):
        for key, member in value.items():
            below = (*path, key)
            if storable and _UNSTORABLE.search(key):
                yield Violation("unstorable_key", key, below)
            yield from _locate(member, below, storable)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _locate(item, (*path, index), storable)
    elif isinstance(value, Violation):
        yield replace(value, path=path)
