"""Conversion of values to JSON for display: limited in size and without secrets.

Programs that need complete values should read the thread's state instead. Apart from attribute
access, no code of a value's class is called, so any value can be converted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import UUID

from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.json_text.secret_values import HIDDEN

DEPTH = 16
KEY_LENGTH = 200
CUT = "…"

#: Keys whose values are always hidden.
_SECRET = re.compile(
    r"(^|[_-])(passw(or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|authorization"
    r"|credentials?|cookie)$",
    re.IGNORECASE,
)
_EXACT = 2**53  # The largest integer up to which all JSON parsers represent integers exactly.


def redact_value(value: Any, most: int, redact: Iterable[str] = ()) -> tuple[Any, bool]:
    """Return the value as JSON of about ``most`` bytes, and whether a part was omitted.

    Values of keys whose names suggest a secret are hidden, as are the values of the keys in
    ``redact``, at any depth.
    """
    view = _Redaction(most, frozenset(redact))
    try:
        return view.convert(value, 0), view.cut
    except Exception:  # The value's class raised an error, or another OS thread changed the value.
        return f"<{type(value).__name__}>", True


class _Redaction:
    """The state of one conversion: the remaining size, and whether a part was omitted."""

    __slots__ = ("cut", "left", "redact")

    def __init__(self, most: int, redact: frozenset[str]) -> None:
        self.left, self.redact, self.cut = most, redact, False

    def convert(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            self.left -= 5
            return value
        if kind is int:
            self.left -= 8
            return value if -_EXACT <= value <= _EXACT else self._text(_digits(value))
        if kind is float:
            self.left -= 8
            return value if math.isfinite(value) else str(value)
        if depth >= DEPTH:
            self.cut = True
            return CUT
        if isinstance(value, Mapping):
            return self._pairs(value.items(), depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._items(value, depth)
        return self._other(value, depth)

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.convert(value.value, depth + 1)
        if isinstance(value, (str, int, float)):  # These are instances of subclasses.
            return self.convert(_to_builtin(value), depth + 1)
        if isinstance(value, (date, time)):
            return self._text(value.isoformat())
        if isinstance(value, (UUID, Decimal, timedelta)):
            return self._text(str(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._text(f"<{len(value)} bytes>")
        if is_dataclass(value) and not isinstance(value, type):
            return self._attributes(value, [field.name for field in fields(value)], depth)
        if isinstance(named := getattr(type(value), "model_fields", None), dict):
            return self._attributes(value, named, depth)
        # The value's own text could contain anything, such as a memory address.
        return self._text(f"<{type(value).__name__}>")

    def _attributes(self, value: Any, names: Iterable[str], depth: int) -> Any:
        held = getattr(value, "__dict__", None)
        if held is None:  # The value's class has __slots__.
            return self._pairs(((name, getattr(value, name, None)) for name in names), depth)
        return self._pairs(((name, held.get(name)) for name in names), depth)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.left -= 2
        for key, value in pairs:
            if self.left <= 0:
                self.cut = True
                break
            name = self._key(key)
            if name in self.redact or _is_secret(name):
                found[name] = self._text(HIDDEN)
            else:
                found[name] = self.convert(value, depth + 1)
        return found

    def _key(self, key: Any) -> str:
        name = key if type(key) is str else str(self.convert(key, DEPTH - 2))
        if len(name) > KEY_LENGTH:
            name, self.cut = name[:KEY_LENGTH] + CUT, True
        if not _is_simple(name):
            name = escape_unstorable(name)
        self.left -= len(name) + 4
        return name

    def _items(self, items: Iterable[Any], depth: int) -> list[Any]:
        found: list[Any] = []
        self.left -= 2
        for item in items:
            if self.left <= 0:
                self.cut = True
                break
            found.append(self.convert(item, depth + 1))
            self.left -= 1
        return found

    def _text(self, text: str) -> str:
        if _is_simple(text) and len(text) < self.left:  # This is the most frequent case.
            self.left -= len(text) + 2
            return text
        room = max(self.left, 1)
        whole = text
        if len(text) > room:
            text = text[:room]
        text = escape_unstorable(text)
        while (size := _count_json_bytes(text)) > room and len(text) > 1:
            text = text[: max(1, len(text) * room // size - 1)]
        self.left -= _count_json_bytes(text)
        if len(text) < len(whole):
            self.cut = True
            return text + CUT
        return text


@lru_cache(1000)
def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def _is_simple(text: str) -> bool:
    """Return whether JSON represents each character of the text by one byte, without escapes."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _to_builtin(value: str | float) -> str | int | float:
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _count_json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def _digits(number: int) -> str:
    if number.bit_length() > 4096:
        return f"<a whole number of {number.bit_length()} bits>"
    return str(number)
