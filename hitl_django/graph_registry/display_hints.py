"""Display hints: formats for values on an interrupt's page, such as ``"money EUR"``.

Display hints come only from code: a graph's review policy or a response schema. Without a display
hint, values of a payload are displayed as plain text.
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
Way = tuple[str | int, ...]
_CURRENCY = re.compile("[A-Z]{3}", re.ASCII)
_POWER_OF_TEN = re.compile(r"10{0,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hint:
    """A display format with its argument."""

    format: str
    argument: str = ""

    @property
    def is_laid_out(self) -> bool:
        """Whether the format displays a text with a layout, as Markdown does."""
        return self.format == "markdown"

    @property
    def currency_names(self) -> Names:
        """The path to the currency of an amount; empty if the hint contains the currency."""
        is_pointer = self.format == "money" and self.argument.startswith("/")
        return tuple(parse_pointer(self.argument)) if is_pointer else ()

    @classmethod
    def parse(cls, text: Any) -> Hint:
        """Parse a display hint such as ``"money EUR"``.

        Raises:
            ValueError: the format or its argument is unknown.
        """
        name, _, argument = text.partition(" ") if isinstance(text, str) else ("", "", "")
        if name not in FORMATS or (argument and not FORMATS[name]):
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {text!r}.")
        argument = argument.strip()
        if name == "percent" and argument and not _POWER_OF_TEN.fullmatch(argument):
            raise ValueError(f"percent takes 1, 10, 100 or another power of ten, not {text!r}.")
        return cls(name, argument)


def parse_hints(display: Mapping[str, Any]) -> dict[Names, Hint]:
    """Parse display hints by member name, or by JSON pointer without positions in lists."""
    return {parse_way(way): Hint.parse(text) for way, text in display.items()}


def parse_way(way: str) -> Names:
    """Return the names in a JSON pointer; any other text is the name of a member."""
    return tuple(parse_pointer(way)) if way.startswith("/") else (way,)


def get_names(way: Iterable[str | int]) -> Names:
    """Return the names on the path to a value."""
    return tuple(part for part in way if isinstance(part, str))


def find_currency(hint: Hint, way: Way, roots: Iterable[Any]) -> str:
    """Return the currency to which a hint refers, from the first root that contains a currency."""
    if not hint.currency_names:
        return ""
    path = place(hint.currency_names, way)
    return next(filter(None, (to_currency(follow(root, path)) for root in roots)), "")


def to_currency(value: Any) -> str:
    """Return the value if it is a currency code, otherwise an empty string."""
    return value if isinstance(value, str) and _CURRENCY.fullmatch(value) else ""


def place(names: Names, way: Way) -> Way:
    """Return a path of names with the positions in lists that it has in common with ``way``."""
    found: list[str | int] = []
    rest = list(way)
    for name in names:
        while rest and isinstance(rest[0], int):
            found.append(rest.pop(0))
        rest = rest[1:] if rest and rest[0] == name else []
        found.append(name)
    return tuple(found)


def follow(value: Any, way: Way) -> Any:
    """Return the value at a path, or None if the path leads to no value."""
    for part in way:
        if isinstance(value, list):
            key: Any = read_index(part) if isinstance(part, str) else part
            value = value[key] if key is not None and key < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) and isinstance(part, str) else None
    return value
