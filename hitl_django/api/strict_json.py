"""JSON as strangers send it: understood whole and in one way, or refused.

``json.loads`` takes the last of two equal keys, reads ``1e400`` as infinity and ``"\\ud800"`` as
a string that can't be encoded again, and runs out of stack on deep nesting. Here each of these
is a fault with a pointer to it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from hitl_django.answers.limits import INTEGER_DIGITS
from hitl_django.engine.errors import PayloadLimitError

from .invalid_params import Fault, token

_MALFORMED = frozenset({"duplicate_key", "not_json", "number_too_long"})

# Everything up to the next bracket or comma outside a string. The possessive quantifiers, and
# an unfinished string counting as one, keep this linear on any input.
_STRUCTURE = re.compile(
    r'(?:[^"\[\]{},]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[\]{},]|\Z)', re.DOTALL
)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class BodyRefused(ValueError):
    """The body can't be taken; ``faults`` says why and where."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(type(self).__doc__)
        self.faults = faults


class MalformedBody(BodyRefused):
    """The body is not JSON that can be understood in only one way."""


class UnstorableBody(BodyRefused):
    """The body is JSON, but has a value that no database or reader could keep as it is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one body may hold: bytes, levels, values at all levels, digits of an integer."""

    size: int = 1024 * 1024
    depth: int = 64
    items: int = 50_000
    digits: int = INTEGER_DIGITS


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands in the tree for what was refused, so that the walk can say where."""

    code: str
    detail: str


def decode_object(raw: bytes, limits: Limits) -> dict[str, Any]:
    """Return the JSON object in ``raw``.

    PayloadLimitError beyond ``limits``, MalformedBody or UnstorableBody with every fault found.
    """
    text = _text(raw)
    _measure(text, limits)
    value = _parse(text, limits)
    if isinstance(value, _Refused):
        _malformed(value.code, value.detail)
    if not isinstance(value, dict):
        _malformed("not_object", "The body has to be a JSON object.")
    faults = list(_faults(value, ""))
    if any(fault.code in _MALFORMED for fault in faults):
        raise MalformedBody(faults)
    if faults:
        raise UnstorableBody(faults)
    return value


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        _malformed("not_utf8", f"The body is not UTF-8 (byte {error.start}).")


def _measure(text: str, limits: Limits) -> None:
    """Refuse nesting and numbers of items before anything is built or recursed into."""
    depth = items = 0
    for match in _STRUCTURE.finditer(text):
        mark = match[1]
        if mark in ("[", "{"):
            depth += 1
            if depth > limits.depth:
                _too_much("nested deeper than", "levels", limits.depth, depth)
        elif mark in ("]", "}"):
            depth -= 1
            continue
        items += bool(mark)
        if items > limits.items:
            _too_much("made of more than", "items", limits.items, items)


def _parse(text: str, limits: Limits) -> Any:
    def integer(digits: str) -> int | _Refused:
        if len(digits.lstrip("-")) > limits.digits:
            return _Refused(
                "number_too_long", f"An integer may have at most {limits.digits} digits."
            )
        return int(digits)

    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        _malformed("not_json", f"{error.msg} at line {error.lineno}, column {error.colno}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            value = _Refused("duplicate_key", "The key appears more than once.")
        members[key] = value
    return members


def _float(digits: str) -> float | _Refused:
    number = float(digits)
    if math.isfinite(number):
        return number
    return _Refused("number_out_of_range", "The number is too large for a double.")


def _constant(name: str) -> _Refused:
    return _Refused("not_json", f"{name} is not JSON.")


def _faults(value: Any, pointer: str) -> Iterator[Fault]:
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            yield _bad_text("The text", pointer)
    elif isinstance(value, dict):
        for key, member in value.items():
            at = f"{pointer}/{token(key)}"
            if _UNSTORABLE.search(key):
                yield _bad_text("The key", at)
            yield from _faults(member, at)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, f"{pointer}/{index}")
    elif isinstance(value, _Refused):
        yield Fault(value.code, value.detail, pointer=pointer)


def _bad_text(what: str, pointer: str) -> Fault:
    detail = f"{what} has a character that can't be stored (NUL or a lone surrogate)."
    return Fault("bad_character", detail, pointer=pointer)


def _malformed(code: str, detail: str) -> NoReturn:
    raise MalformedBody([Fault(code, detail, pointer="")])


def _too_much(what: str, unit: str, limit: int, found: int) -> NoReturn:
    raise PayloadLimitError(f"The body is {what} {limit} {unit}.", limit=limit, found=found)
