"""Validation of interrupt payloads, which must be plain JSON so that every client can show them."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from .errors import PayloadLimitError, UnserializableError

WHAT = "The interrupt payload"
MAX_DEPTH = 64
#: The maximum number of bits of an integer. Python converts integers of up to 4,300 decimal digits.
MAX_BITS = 14_000
#: The format of a datetime without a time zone.
LOCAL_DATETIME = "date-time-local"

# PostgreSQL text can't contain NUL, and UTF-8 can't encode a lone surrogate. Both are rejected
# here, so that all databases behave the same.
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")


#: Keys that mark a payload as a tool call.
_CALLS = frozenset({"action_request", "action_requests", "tool_call", "tool_call_id"})


def check_payload(value: Any) -> Any:
    """Check that an interrupt's payload is plain JSON, and return it.

    Decimals, UUIDs, dates, times and durations are converted to text, as by Django's JSON encoder.
    If the payload describes tool calls, characters that can't be stored are escaped in the returned
    payload. The node's own values are not changed, so an approval executes the original arguments.

    Raises:
        UnserializableError: the payload isn't plain JSON. Or it contains characters that can't be
            stored, and doesn't describe tool calls.
    """
    with suppress(UnserializableError):
        check_json(value, WHAT)
        return value
    value = _encode_values(value)
    try:
        check_json(value, WHAT)
    except UnserializableError:
        request = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(request, dict) or _CALLS.isdisjoint(request):
            raise
        value = _escape_text(value)
        check_json(value, WHAT)
    return value


def list_formats(value: Any, pointer: str = "", depth: int = 0) -> dict[str, str]:
    """Return the format of each value that ``check_payload`` converts to text, by JSON pointer.

    The formats are those of JSON Schema, and ``decimal``.
    """
    if depth < MAX_DEPTH and type(value) is dict:
        parts = [(str(key).replace("~", "~0").replace("/", "~1"), value[key]) for key in value]
    elif depth < MAX_DEPTH and type(value) in (list, tuple):
        parts = [(str(index), member) for index, member in enumerate(value)]
    else:
        found = _find_format(value)
        return {} if found is None else {pointer: found}
    below = [list_formats(member, f"{pointer}/{part}", depth + 1) for part, member in parts]
    return {name: found for formats in below for name, found in formats.items()}


def _find_format(value: Any) -> str | None:
    if isinstance(value, datetime):
        return LOCAL_DATETIME if value.tzinfo is None else "date-time"
    formats = {date: "date", time: "time", Decimal: "decimal", UUID: "uuid"}
    return next((name for kind, name in formats.items() if isinstance(value, kind)), None)


def _encode_values(value: Any, depth: int = 0) -> Any:
    if depth < MAX_DEPTH and type(value) is dict:
        return {key: _encode_values(member, depth + 1) for key, member in value.items()}
    if depth < MAX_DEPTH and type(value) in (list, tuple):
        return [_encode_values(member, depth + 1) for member in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec=_choose_timespec(value)).replace("+00:00", "Z")
    if isinstance(value, time) and value.tzinfo is None:
        return value.isoformat(timespec=_choose_timespec(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _encode_duration(value)
    return str(value) if isinstance(value, Decimal | UUID) else value


def _choose_timespec(value: datetime | time) -> str:
    return "milliseconds" if value.microsecond else "seconds"


def _encode_duration(value: timedelta) -> str:
    span = abs(value)
    minutes, seconds = divmod(span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{span.microseconds:06d}" if span.microseconds else ""
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}P{span.days}DT{hours:02d}H{minutes:02d}M{seconds:02d}{fraction}S"


def _escape_text(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\\x00").encode(errors="backslashreplace").decode()
    if depth >= MAX_DEPTH:
        return value
    if type(value) is dict:
        return {_escape_text(key): _escape_text(member, depth + 1) for key, member in value.items()}
    if type(value) in (list, tuple):
        return [_escape_text(member, depth + 1) for member in value]
    return value


def check_json(value: Any, what: str, path: str = "$", depth: int = 0) -> None:
    """Raise UnserializableError unless ``value`` is plain JSON.

    The error has the path of the invalid part. ``what`` names the value in the message.
    """
    kind = type(value)
    if kind is str:
        if _BAD_TEXT.search(value):
            raise UnserializableError(
                f"{what} contains a character at {path} that can't be stored (NUL or a "
                "lone surrogate).",
                path,
            )
    elif kind is bool or value is None:
        pass
    elif kind is int:
        if value.bit_length() > MAX_BITS:
            raise PayloadLimitError(
                f"{what} contains an integer of {value.bit_length():,} bits at {path}; "
                f"the limit is {MAX_BITS:,}.",
                limit=MAX_BITS,
                found=value.bit_length(),
            )
    elif kind is float:
        if not math.isfinite(value):
            raise UnserializableError(
                f"{what} contains {value} at {path}, which isn't valid JSON.", path
            )
    elif depth >= MAX_DEPTH:
        raise PayloadLimitError(
            f"{what} is nested deeper than {MAX_DEPTH} levels at {path}.",
            limit=MAX_DEPTH,
            found=depth + 1,
        )
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise UnserializableError(
                    f"{what} contains a key {key!r} at {path} that is not a str.", path
                )
            below = f"{path}.{key}"
            check_json(key, what, below, depth + 1)
            check_json(item, what, below, depth + 1)
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            check_json(item, what, f"{path}[{index}]", depth + 1)
    elif isinstance(value, str) and not (isinstance(value, Enum) or hasattr(value, "__dict__")):
        # Such as the text of a langchain message, which has no state besides the str.
        check_json(str.__str__(value), what, path, depth)
    else:
        raise UnserializableError(
            f"{what} contains a value of type {kind.__qualname__} at {path}, which isn't "
            "JSON-serializable. Convert it to a str, number, list or dict.",
            path,
        )
