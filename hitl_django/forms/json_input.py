"""Parsing of numbers and JSON that people type, and texts with hidden characters made visible."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.formats import get_format
from django.utils.translation import gettext_lazy as _

from hitl_django.json_text.sanitize import is_joiner
from hitl_django.json_text.strict_json import (
    MAX_INTEGER_DIGITS,
    StrictJSONError,
    parse_strict,
)

TOO_MANY_DIGITS = _("Integers are limited to %(limit)s digits.")
#: What is said of JSON that is well written and more than can be taken.
TOO_MUCH = {
    "integer_too_long": TOO_MANY_DIGITS,
    "nested_too_deeply": _("This is nested too deeply."),
    "number_out_of_range": _("A number is too large."),
}
AMBIGUOUS = _(
    "“%(text)s” could mean %(whole)s or %(decimal)s. Enter it without a thousands separator."
)

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
#: Where a comma stands before the decimals, this may be thousands as well.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)


def parse_integer(text: str) -> int:
    """Read a whole number; a ValueError where it is none, ValidationError for too many digits."""
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    if len(text.lstrip("+-")) > MAX_INTEGER_DIGITS:
        raise _too_much("integer_too_long")
    return int(text)


def parse_number(text: str, *, like: Any = None) -> int | float:
    """Read a finite number: a float where ``like`` is one, else an int where it is whole."""
    return _read_number(_with_point(text), like)


def _read_number(text: str, like: Any) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if _INTEGER.fullmatch(text) and not isinstance(like, float):
        return parse_integer(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def parse_decimal(text: str, *, like: Any = None, spelling: tuple[str, ...]) -> Any:
    """Read a decimal and spells it in JSON the way ``like`` was spelled.

    Without an example it is a string, which keeps every digit. So it is where a JSON number
    would change the value.
    """
    text = _with_point(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if "number" in spelling and isinstance(like, int | float):
        number = _read_number(text, like)
        if Decimal(repr(number)) == Decimal(text):
            return number
    return text


def format_number(value: float | str) -> str:
    """Write a number, or a decimal in a text, as it is typed in the reader's language.

    Nothing is rounded, and thousands aren't separated: it is read back as the same number.
    """
    text = value if isinstance(value, str) else to_json(value)
    return text.replace(".", _get_separator())


def _get_separator() -> str:
    """Return what stands before the decimals in the reader's language, a point or a comma."""
    return "," if get_format("DECIMAL_SEPARATOR") == "," else "."


def _with_point(text: str) -> str:
    """Return a number as JSON writes it; ValidationError where it may be one of two."""
    text = text.strip()
    if _get_separator() == ".":
        return text
    if _THOUSANDS.fullmatch(text):
        either = {"whole": text.replace(".", ""), "decimal": text.replace(".", ",")}
        raise ValidationError(AMBIGUOUS, params={"text": text, **either}, code="invalid")
    if "." in text and "," in text:
        raise ValueError(text)
    return text.replace(",", ".")


def is_decimal(value: Any) -> bool:
    """Return whether a JSON value can be shown in a decimal's field."""
    if isinstance(value, str):
        try:
            return bool(_NUMBER.fullmatch(value)) and Decimal(value).is_finite()
        except InvalidOperation:
            return False
    return is_number(value)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Write a value as JSON text for people: nothing escaped that needn't be."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def from_json(text: str) -> Any:
    """Read JSON text strictly: no NaN, no infinity, no key twice, no bottomless nesting.

    Raises ValueError, whose message says where; ValidationError for what is too much of JSON.
    """
    try:
        return parse_strict(text.lstrip("\ufeff"), max_digits=MAX_INTEGER_DIGITS)
    except StrictJSONError as error:
        if error.violation.rule in TOO_MUCH:
            raise _too_much(error.violation.rule) from None
        raise


def _too_much(rule: str) -> ValidationError:
    return ValidationError(TOO_MUCH[rule], params={"limit": MAX_INTEGER_DIGITS}, code="invalid")


def is_same_text(raw: Any, shown: Any) -> bool:
    """Return whether a text came back as it was shown; a browser rewrites only the line ends."""
    return (
        isinstance(raw, str)
        and isinstance(shown, str)
        and normalize_newlines(raw) == normalize_newlines(shown)
    )


def normalize_newlines(text: str) -> str:
    """Turn every line end into a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


#: What a screen doesn't show, or shows as an order to show something else: control and format
#: characters (bidirectional ones among them), line separators, private use.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_HIDDEN_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")


def escape_hidden(text: str) -> str:
    """Return the text with every character that wouldn't show replaced by its code point.

    Line feeds and tabs stay, and so do the joiners that Persian and emoji are written with.
    """
    text = text.replace("\r\n", "\n")
    return "".join(
        f"⟨{_name_code(char)}⟩" if _is_hidden(text, at) else char for at, char in enumerate(text)
    )


def list_hidden(text: str) -> list[str]:
    """Return the code points of the characters of a text that wouldn't show, each once."""
    text = text.replace("\r\n", "\n")
    return list(dict.fromkeys(_name_code(c) for at, c in enumerate(text) if _is_hidden(text, at)))


def _name_code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _is_hidden(text: str, at: int) -> bool:
    char = text[at]
    if char.isprintable() or char in "\n\t":
        return char in _HIDDEN_LETTERS
    return unicodedata.category(char) in _HIDDEN_CATEGORIES and not is_joiner(text, at)
