"""Parsing of typed numbers and JSON, and display of invisible characters."""

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
#: Error messages for well-formed JSON that exceeds a limit.
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
#: If the decimal separator is a comma, the point may be a thousands separator.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)


def parse_integer(text: str) -> int:
    """Parse an integer.

    Raises:
        ValueError: the text isn't an integer.
        ValidationError: the integer has too many digits.
    """
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    if len(text.lstrip("+-")) > MAX_INTEGER_DIGITS:
        raise too_much("integer_too_long")
    return int(text)


def parse_number(text: str, *, like: Any = None) -> int | float:
    """Parse a finite number.

    The result is a float if ``like`` is a float, or if the text has a decimal separator or an
    exponent. Otherwise, the result is an int.
    """
    return _read_number(_use_decimal_point(text), like)


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
    """Parse a decimal, and return it as a JSON number or a string.

    ``spelling`` are the JSON types that the schema allows. The result is a number if ``spelling``
    contains "number", ``like`` is a number, and the conversion to a number doesn't change the typed
    value. Otherwise, the result is a string.
    """
    text = _use_decimal_point(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if "number" in spelling and isinstance(like, int | float):
        number = _read_number(text, like)
        if Decimal(repr(number)) == Decimal(text):
            return number
    return text


def format_number(value: float | str) -> str:
    """Format a number, or a decimal given as text, with the reader's decimal separator.

    The number is not rounded and thousands are not separated, so that parsing returns the same
    number.
    """
    text = value if isinstance(value, str) else to_json(value)
    return text.replace(".", get_decimal_separator())


def get_decimal_separator() -> str:
    """Return the decimal separator of the current language: a point or a comma."""
    return "," if get_format("DECIMAL_SEPARATOR") == "," else "."


def _use_decimal_point(text: str) -> str:
    """Return the text with its decimal comma replaced by a point, if the language has a comma.

    Raises:
        ValidationError: a point in the text can be a decimal point or a separator of thousands.
        ValueError: the text contains both a point and a comma.
    """
    text = text.strip()
    if get_decimal_separator() == ".":
        return text
    if _THOUSANDS.fullmatch(text):
        either = {"whole": text.replace(".", ""), "decimal": text.replace(".", ",")}
        raise ValidationError(AMBIGUOUS, params={"text": text, **either}, code="invalid")
    if "." in text and "," in text:
        raise ValueError(text)
    return text.replace(",", ".")


def is_decimal(value: Any) -> bool:
    """Return whether a decimal field can show a JSON value."""
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
    """Return the value as readable JSON text, with as few escapes as possible."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def from_json(text: str) -> Any:
    """Parse JSON text strictly: without NaN, infinity, duplicate keys or excessive nesting.

    Raises:
        ValueError: the text isn't valid JSON. The message contains the position.
        ValidationError: the text exceeds a limit.
    """
    try:
        return parse_strict(text.lstrip("\ufeff"), max_digits=MAX_INTEGER_DIGITS)
    except StrictJSONError as error:
        if error.violation.rule in TOO_MUCH:
            raise too_much(error.violation.rule) from None
        raise


def too_much(rule: str) -> ValidationError:
    """Return the error for well-formed input that exceeds the limit ``rule``."""
    return ValidationError(TOO_MUCH[rule], params={"limit": MAX_INTEGER_DIGITS}, code="invalid")


def is_same_text(raw: Any, shown: Any) -> bool:
    """Return whether a submitted text equals the displayed text, apart from line endings."""
    return (
        isinstance(raw, str)
        and isinstance(shown, str)
        and normalize_newlines(raw) == normalize_newlines(shown)
    )


def normalize_newlines(text: str) -> str:
    """Convert all line ends to line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


#: Invisible characters, and characters that change the display of other characters: control and
#: format characters (including bidirectional control characters), line separators, private use.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_HIDDEN_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")


def escape_hidden(text: str) -> str:
    """Replace each invisible character by its code point.

    Line feeds and tabs are not replaced. Joiners, which Persian and emoji require, are not replaced
    either.
    """
    text = text.replace("\r\n", "\n")
    return "".join(
        f"⟨{_name_code(char)}⟩" if _is_hidden(text, at) else char for at, char in enumerate(text)
    )


def list_hidden(text: str) -> list[str]:
    """Return the code points of a text's invisible characters, without duplicates."""
    text = text.replace("\r\n", "\n")
    return list(dict.fromkeys(_name_code(c) for at, c in enumerate(text) if _is_hidden(text, at)))


def _name_code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _is_hidden(text: str, at: int) -> bool:
    char = text[at]
    if char.isprintable() or char in "\n\t":
        return char in _HIDDEN_LETTERS
    return unicodedata.category(char) in _HIDDEN_CATEGORIES and not is_joiner(text, at)
