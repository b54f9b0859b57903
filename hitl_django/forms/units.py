"""Units of values: amounts of money, percentages and durations.

A unit formats a JSON value in the current language, and parses typed text. The JSON value itself
does not change: an amount is an integer in the smallest unit of its currency.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from django.utils.timesince import TIME_STRINGS
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from hitl_django.graph_registry.display_hints import Hint, Path, find_currency
from hitl_django.json_text.currencies import DIGITS
from hitl_django.json_text.text_formats import is_duration

from .json_input import format_number, is_number
from .localized_numbers import read_decimal, show_decimal

JSON = Any
#: Durations of more seconds, or of more characters, are shown as plain values.
MAX_SECONDS, MAX_DURATION_TEXT = 10**12, 100


class Unit(ABC):
    """The base class of units."""

    #: The kinds of schema nodes with values in this unit.
    kinds: ClassVar[frozenset[str]] = frozenset({"integer", "number"})
    #: The keyboard of phones.
    input_mode: ClassVar[str] = "decimal"
    #: The error message for text that isn't a value in this unit.
    invalid: ClassVar[Any]

    @property
    def symbol(self) -> str:
        """The text shown next to the input."""
        return ""

    @property
    @abstractmethod
    def example(self) -> str:
        """A valid input, for error messages."""

    @abstractmethod
    def accepts(self, value: JSON) -> bool:
        """Return whether a JSON value can be shown in this unit without loss."""

    @abstractmethod
    def show(self, value: JSON) -> str:
        """Return an accepted value with its unit."""

    @abstractmethod
    def to_input(self, value: JSON) -> str:
        """Return an accepted value as input text. Parsing this text returns the same value."""

    @abstractmethod
    def read(self, text: str, *, like: JSON, kind: str) -> JSON:
        """Convert typed text to a JSON value.

        ``like`` is the original value, and ``kind`` is the kind of the schema node.

        Raises:
            ValueError: the text isn't a value in this unit.
            ValidationError: the text has several meanings or is too long.
        """

    def _strip_symbol(self, text: str) -> str:
        text, size = text.strip(), len(self.symbol)
        if size and text[-size:].upper() == self.symbol.upper():
            return text[:-size]
        if size and text[:size].upper() == self.symbol.upper():
            return text[size:]
        return text


@dataclass(frozen=True)
class Money(Unit):
    """A currency. Values are integers in the currency's smallest unit, such as cents.

    A currency with an empty name has two decimal places.
    """

    currency: str = ""
    invalid: ClassVar[Any] = _("Enter an amount, for example %(example)s.")

    @property
    def digits(self) -> int:
        """The number of decimal places."""
        return DIGITS.get(self.currency, 2)

    @property
    def symbol(self) -> str:
        return self.currency

    @property
    def example(self) -> str:
        return self.show(1250 * 10 ** max(self.digits - 2, 0))

    def accepts(self, value: JSON) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def show(self, value: JSON) -> str:
        amount = show_decimal(self._write(value), self.digits)
        return f"{amount}\N{NO-BREAK SPACE}{self.currency}".strip()

    def to_input(self, value: JSON) -> str:
        return format_number(self._write(value))

    def read(self, text: str, *, like: JSON, kind: str) -> JSON:
        whole, _point, fraction = read_decimal(self._strip_symbol(text), self.digits).partition(".")
        return int(whole + fraction.ljust(self.digits, "0"))

    def _write(self, value: int) -> str:
        text = str(abs(value)).rjust(self.digits + 1, "0")
        whole = text[: len(text) - self.digits]
        fraction = f".{text[-self.digits :]}" if self.digits else ""
        return f"{'-' if value < 0 else ''}{whole}{fraction}"


@dataclass(frozen=True)
class Percent(Unit):
    """A percentage. The value ``10 ** exponent`` is shown as 100 %."""

    exponent: int = 0
    invalid: ClassVar[Any] = _("Enter a percentage, for example %(example)s.")

    @property
    def symbol(self) -> str:
        return "%"

    @property
    def example(self) -> str:
        return format_number("12.5")

    def accepts(self, value: JSON) -> bool:
        return is_number(value) and math.isfinite(value)

    def show(self, value: JSON) -> str:
        return gettext("%(number)s%%") % {"number": show_decimal(self._write(value))}

    def to_input(self, value: JSON) -> str:
        return format_number(self._write(value))

    def read(self, text: str, *, like: JSON, kind: str) -> JSON:
        number = _shift(Decimal(read_decimal(self._strip_symbol(text))), self.exponent - 2)
        written = _write_plain(number)
        if "." not in written and not isinstance(like, float):
            return int(written)
        if kind == "integer":
            raise ValueError(text)
        return float(number)

    def _write(self, value: float) -> str:
        return _write_plain(_shift(Decimal(repr(value)), 2 - self.exponent))


@dataclass(frozen=True)
class Duration(Unit):
    """A duration. Values are numbers of seconds, or ISO 8601 texts."""

    kinds: ClassVar[frozenset[str]] = frozenset({"integer", "number", "text"})
    input_mode: ClassVar[str] = "text"
    invalid: ClassVar[Any] = _("Enter a duration, for example %(example)s.")

    @property
    def example(self) -> str:
        return "1 d 4 h 30 min"

    def accepts(self, value: JSON) -> bool:
        if isinstance(value, str):
            if len(value) > MAX_DURATION_TEXT or not is_duration(value):
                return False
            return abs(_parse_iso(value).seconds) <= MAX_SECONDS
        return is_number(value) and abs(value) <= MAX_SECONDS

    def show(self, value: JSON) -> str:
        span = _parse_iso(value) if isinstance(value, str) else _Span(seconds=Decimal(repr(value)))
        texts = [_show_part(name, count) for name, count in span.parts()]
        return span.sign + (", ".join(texts) or _show_part("second", "0"))

    def to_input(self, value: JSON) -> str:
        span = _parse_iso(value) if isinstance(value, str) else _Span(seconds=Decimal(repr(value)))
        texts = [f"{format_number(count)} {SYMBOLS[name]}" for name, count in span.parts()]
        return span.sign + (" ".join(texts) or "0 s")

    def read(self, text: str, *, like: JSON, kind: str) -> JSON:
        text = text.strip()
        if len(text) > 2 * MAX_DURATION_TEXT:
            raise ValueError(text)
        span = _parse_iso(text.upper()) if is_duration(text.upper()) else _parse_words(text)
        if abs(span.seconds) > MAX_SECONDS:
            raise ValueError(text)
        if kind == "text":
            return span.to_iso()
        if span.months:
            raise ValueError(text)  # The number of seconds in a month varies.
        written = _write_plain(span.seconds)
        if "." not in written and not isinstance(like, float):
            return int(written)
        if kind == "integer":
            raise ValueError(text)
        return float(written)


#: Symbols of units of time in inputs, by their English name.
SYMBOLS = {"year": "y", "month": "mo", "day": "d", "hour": "h", "minute": "min", "second": "s"}
#: Numbers of months, and of seconds, in a unit of time.
_MONTHS = {"year": 12, "month": 1}
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_ISO = re.compile(
    r"(-?)P(?:(\d+)W|(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?"
    r"(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?)",
    re.ASCII,
)
_ISO_ORDER = ("week", "year", "month", "day", "hour", "minute", "second")
_CLOCK = re.compile(r"(\d{1,6}):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_PART = re.compile(r"(\d{1,15}(?:[.,]\d{1,15})?)\s*([^\W\d_]{1,30})\.?[\s,]*")


@dataclass(frozen=True)
class _Span:
    months: int = 0
    seconds: Decimal = Decimal(0)

    @property
    def sign(self) -> str:
        return "-" if self.months < 0 or self.seconds < 0 else ""

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the counts of days, hours and other units in a duration, without zeros."""
        months, seconds = abs(self.months), abs(self.seconds)
        counts: dict[str, str] = {"year": str(months // 12), "month": str(months % 12)}
        whole = int(seconds)
        rest = seconds - whole
        for name in ("day", "hour", "minute"):
            counts[name], whole = str(whole // _SECONDS[name]), whole % _SECONDS[name]
        counts["second"] = _write_plain(whole + rest)
        yield from ((name, count) for name, count in counts.items() if count != "0")

    def to_iso(self) -> str:
        counts = dict(self.parts())
        date = "".join(f"{counts[n]}{n[0].upper()}" for n in ("year", "month", "day")
                       if n in counts)  # fmt: skip
        time = "".join(f"{counts[n]}{n[0].upper()}" for n in ("hour", "minute", "second")
                       if n in counts)  # fmt: skip
        if not date and not time:
            return "PT0S"
        return f"{self.sign}P{date}T{time}" if time else f"{self.sign}P{date}"


def make_unit(hint: Hint | None, currency: str = "") -> Unit | None:
    """Return the unit of a display hint, or None if the hint has a format without a unit.

    If the hint refers to another value that contains the currency, ``currency`` is this currency.
    """
    if hint is None:
        return None
    match hint.format:
        case "money":
            return Money(currency if hint.currency_names else hint.argument)
        case "percent":
            return Percent(max(len(hint.argument) - 1, 0))
        case "duration":
            return Duration()
    return None


def find_unit(hint: Hint | None, path: Path, roots: tuple[JSON, ...]) -> Unit | None:
    """Return the unit of the value at a path.

    If the hint refers to the currency in another value, the currency is read from the first of
    ``roots`` that contains it. Return None if no root contains it, or if the hint has no unit.
    """
    if hint is None or not hint.currency_names:
        return make_unit(hint)
    currency = find_currency(hint, path, roots)
    return make_unit(hint, currency) if currency else None


def _shift(number: Decimal, places: int) -> Decimal:
    """Return the number times ten to the power of ``places``, without rounding."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return Decimal((sign, digits, exponent + places))


def _write_plain(number: Decimal) -> str:
    """Return a number without exponent and trailing zeros."""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _show_part(name: str, count: str) -> str:
    if name == "second":
        shown = show_decimal(count)
        text = ngettext("%(num)s second", "%(num)s seconds", 1 if count == "1" else 2)
        return (text % {"num": shown}).replace(" ", "\N{NO-BREAK SPACE}")
    return str(TIME_STRINGS[name] % {"num": int(count)})


def _parse_iso(text: str) -> _Span:
    found = _ISO.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign = -1 if found[1] else 1
    counts = zip(_ISO_ORDER, found.groups()[1:], strict=True)
    return _add_up(sign, [(name, Decimal(count)) for name, count in counts if count])


def _parse_words(text: str) -> _Span:
    sign = -1 if text[:1] in ("-", "\N{MINUS SIGN}") else 1
    text = text.lstrip("+-\N{MINUS SIGN}").lstrip()
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (Decimal(part or 0) for part in clock.groups())
        return _add_up(sign, [("hour", hours), ("minute", minutes), ("second", seconds)])
    names, at = _read_words(), 0
    parts: list[tuple[str, Decimal]] = []
    while at < len(text):
        found = _PART.match(text, at)
        if found is None or not found[1].isascii():
            raise ValueError(text)
        name = names.get(found[2].casefold())
        if name is None or any(name == known for known, _count in parts):
            raise ValueError(text)
        parts.append((name, Decimal(found[1].replace(",", "."))))
        at = found.end()
    if not parts:
        raise ValueError(text)
    return _add_up(sign, parts)


def _add_up(sign: int, parts: list[tuple[str, Decimal]]) -> _Span:
    months, seconds = 0, Decimal(0)
    for name, count in parts:
        if name in _MONTHS:
            if count != int(count):
                raise ValueError(name)
            months += int(count) * _MONTHS[name]
        else:
            seconds += count * _SECONDS[name]
    return _Span(sign * months, sign * seconds)


def _read_words() -> dict[str, str]:
    """Map each symbol and word for a unit of time, such as "h" or "hours", to the unit's name.

    The words are those in English and in the current language.
    """
    found = {symbol: name for name, symbol in SYMBOLS.items()}
    found |= {"m": "minute", "sec": "second", "hr": "hour", "hrs": "hour", "w": "week"}
    for name in (*_MONTHS, *_SECONDS):
        found[name] = found[f"{name}s"] = name
        for count in ("1", "2"):
            words = _show_part(name, count).replace("\N{NO-BREAK SPACE}", " ").split(" ", 1)
            found[words[-1].casefold()] = name
    return found
