"""Display hints: formats of values on an interrupt's page, such as ``"money EUR"``.

Display hints come only from code: from a graph's review policy or a response schema. Values of a
payload without a display hint are displayed as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hitl_django.json_text.json_pointer import parse_pointer, read_index

#: The formats, each with the meaning of its argument.
FORMATS = {
    "code": "",
    "date": "",
    "duration": "",
    "file": "the folder to serve files from",
    "image": "the folder to serve images from",
    "link": "",
    "markdown": "",
    "money": "the currency, or a JSON pointer to the payload's value that contains the currency",
    "percent": "the number that means 100 %",
}

#: The names on the path to a value, without positions in lists.
Names = tuple[str, ...]
#: Names and positions in lists on the path to a value.
Path = tuple[str | int, ...]
_CURRENCY = re.compile("[A-Z]{3}", re.ASCII)
_POWER_OF_TEN = re.compile(r"10{0,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hint:
    """A display format with its argument, such as "money" with the argument "EUR"."""

    format: str
    argument: str = ""

    @property
    def is_laid_out(self) -> bool:
        """Whether the format keeps the line breaks and spaces of a text, as Markdown does."""
        return self.format == "markdown"

    @property
    def currency_names(self) -> Names:
        """The path to the currency of an amount, or () if the hint itself contains the currency."""
        is_pointer = self.format == "money" and self.argument.startswith("/")
        return tuple(parse_pointer(self.argument)) if is_pointer else ()

    @classmethod
    def parse(cls, text: Any) -> Hint:
        """Parse a display hint such as ``"money EUR"``.

        Raises:
            ValueError: the format or its argument is not valid.
        """
        name, _, argument = text.partition(" ") if isinstance(text, str) else ("", "", "")
        if name not in FORMATS or (argument and not FORMATS[name]):
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {text!r}.")
        argument = argument.strip()
        if name == "percent" and argument and not _POWER_OF_TEN.fullmatch(argument):
            raise ValueError(f"percent takes 1, 10, 100 or another power of ten, not {text!r}.")
        return cls(name, argument)


def parse_hints(display: Mapping[str, Any]) -> dict[Names, Hint]:
    """Parse display hints. A key is a member name, or a JSON pointer without positions in lists."""
    return {parse_names(path): Hint.parse(text) for path, text in display.items()}


def parse_names(path: str) -> Names:
    """Return the names in a JSON pointer. A text that isn't a JSON pointer is a single name."""
    return tuple(parse_pointer(path)) if path.startswith("/") else (path,)


def get_names(path: Iterable[str | int]) -> Names:
    """Return the member names in a path. Positions in lists are left out."""
    return tuple(part for part in path if isinstance(part, str))


def find_currency(hint: Hint, path: Path, roots: Iterable[Any]) -> str:
    """Return the currency of the amount at ``path``, or an empty string.

    If ``hint`` contains the path to a currency, the currency is looked up in ``roots``, which are
    payloads or other JSON values. The first root with a currency at the path is used.
    """
    if not hint.currency_names:
        return ""
    place = locate(hint.currency_names, path)
    return next(filter(None, (to_currency(follow(root, place)) for root in roots)), "")


def to_currency(value: Any) -> str:
    """Return the value if it is a currency code. Otherwise, return an empty string."""
    return value if isinstance(value, str) and _CURRENCY.fullmatch(value) else ""


def locate(names: Names, near: Path) -> Path:
    """Insert list positions into a path of member names, and return the resulting path.

    The positions come from the path ``near``. For example, ``lines, currency`` near
    ``lines, 2, amount`` is ``lines, 2, currency``.
    """
    found: list[str | int] = []
    rest = list(near)
    for name in names:
        while rest and isinstance(rest[0], int):
            found.append(rest.pop(0))
        rest = rest[1:] if rest and rest[0] == name else []
        found.append(name)
    return tuple(found)


def follow(value: Any, path: Iterable[str | int]) -> Any:
    """Return the value at a path, or None if there is no value."""
    try:
        return resolve(value, path)[0]
    except LookupError:
        return None


def resolve(value: Any, path: Iterable[str | int]) -> tuple[Any, Path]:
    """Return the value at a path, and the path with list positions converted from text to numbers.

    Raises:
        LookupError: there is no value at the path.
    """
    found: list[str | int] = []
    for part in path:
        key: Any = read_index(part) if isinstance(value, list) and isinstance(part, str) else part
        if key is None or not isinstance(value, list | dict):
            raise LookupError(part)
        value = value[key]
        found.append(key)
    return value, tuple(found)
