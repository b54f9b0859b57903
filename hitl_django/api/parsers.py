"""Parsers of request bodies that contain one JSON object or array of limited size."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from django.conf import settings
from rest_framework.parsers import BaseParser

from hitl_django.engine.errors import PayloadLimitError
from hitl_django.json_text import strict_json
from hitl_django.json_text.strict_json import MAX_INTEGER_DIGITS, Violation

from .invalid_params import InvalidParam, format_pointer

BodyT = TypeVar("BodyT", dict[str, Any], list[Any])

_MALFORMED = frozenset({"duplicate_key", "not_json", "number_too_long"})


class BodyError(ValueError):
    """The body is invalid.

    ``faults`` lists the errors with their locations.
    """

    def __init__(self, faults: list[InvalidParam]) -> None:
        super().__init__(type(self).__doc__)
        self.faults = faults


class MalformedBody(BodyError):
    """The body is not valid JSON, or is ambiguous, for example because of a repeated key."""


class UnstorableBody(BodyError):
    """The body is valid JSON, but contains a value that can't be stored unchanged."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits of one body: bytes, nesting depth, number of values, and digits of an integer."""

    size: int = 1024 * 1024
    depth: int = 64
    items: int = 50_000
    digits: int = MAX_INTEGER_DIGITS


class StrictJSONParser(BaseParser):
    """Parser of one JSON object within the view's ``limits``, always in UTF-8.

    The project's ``DATA_UPLOAD_MAX_MEMORY_SIZE`` applies if it is smaller.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Any = None,
    ) -> Any:
        limits = parser_context["view"].limits
        allowed = min(limits.size, settings.DATA_UPLOAD_MAX_MEMORY_SIZE or limits.size)

        # Read one byte more than allowed to detect a body that is too large, even if its
        # Content-Length is wrong.
        raw = stream.read(allowed + 1)
        if len(raw) > allowed:
            raise PayloadLimitError(
                f"The body is larger than {allowed} bytes.", limit=allowed, found=len(raw)
            )
        return self.decode(raw, limits)

    def decode(self, raw: bytes, limits: BodyLimits) -> Any:
        return decode_object(raw, limits)


class StrictArrayParser(StrictJSONParser):
    """Parser of one JSON array, with the same rules as StrictJSONParser."""

    def decode(self, raw: bytes, limits: BodyLimits) -> Any:
        return _decode(raw, limits, list, "array")


def decode_object(raw: bytes, limits: BodyLimits) -> dict[str, Any]:
    """Parse the JSON object in ``raw``.

    Raises:
        PayloadLimitError: if a limit is exceeded.
        MalformedBody: if the bytes are not a valid JSON object.
        UnstorableBody: if the object contains values that can't be stored. The error lists all
            these values.
    """
    return _decode(raw, limits, dict, "object")


def _decode(raw: bytes, limits: BodyLimits, kind: type[BodyT], name: str) -> BodyT:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed("not_utf8", f"The body is not valid UTF-8 (byte {error.start}).") from None
    strict_json.check_extent(text, depth=limits.depth, items=limits.items, what="The body")
    try:
        value, violations = strict_json.collect_violations(
            text, max_digits=limits.digits, storable=True
        )
    except json.JSONDecodeError as error:
        detail = f"{error.msg} at line {error.lineno}, column {error.colno}."
        raise _malformed("not_json", detail) from None
    faults = [_describe(violation, limits) for violation in violations]
    if isinstance(value, Violation):
        raise MalformedBody(faults)
    if not isinstance(value, kind):
        raise _malformed(f"not_{name}", f"The body must be a JSON {name}.")
    if any(fault.code in _MALFORMED for fault in faults):
        raise MalformedBody(faults)
    if faults:
        raise UnstorableBody(faults)
    return value


def _malformed(code: str, detail: str) -> MalformedBody:
    return MalformedBody([InvalidParam(code, detail, pointer="")])


def _describe(violation: Violation, limits: BodyLimits) -> InvalidParam:
    unstorable = "contains a character that can't be stored (NUL or a lone surrogate)."
    code, detail = {
        "duplicate_key": ("duplicate_key", "Duplicate key."),
        "not_a_number": ("not_json", f"{violation.found} is not valid JSON."),
        "integer_too_long": (
            "number_too_long",
            f"Integers are limited to {limits.digits} digits.",
        ),
        "number_out_of_range": (
            "number_out_of_range",
            "The number is too large for a double.",
        ),
        "unstorable_text": ("bad_character", f"The string {unstorable}"),
        "unstorable_key": ("bad_character", f"The key {unstorable}"),
    }[violation.rule]
    return InvalidParam(code, detail, pointer=format_pointer(violation.path))
