"""Display hints: formats for values on an interrupt's page, such as ``"money EUR"``.

Display hints come only from code: a graph's review policy or a response schema. Without a display
hint, values of a payload are displayed as plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hitl_django.json_text.json_pointer import parse_pointer

#: The formats, each with the meaning of its argument.
FORMATS = {
    "code": "",
    "date": "",
    "file": "the folder to serve files from",
    "image": "the folder to serve images from",
    "link": "",
    "markdown": "",
    "money": "the currency",
}

#: The names on the path to a value, without positions in lists.
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hint:
    """A display format with its argument."""

    format: str
    argument: str = ""

    @property
    def is_laid_out(self) -> bool:
        """Whether the format displays a text with a layout, as Markdown does."""
        return self.format == "markdown"

    @classmethod
    def parse(cls, text: Any) -> Hint:
        """Parse a display hint such as ``"money EUR"``.

        Raises:
            ValueError: the format is unknown.
        """
        name, _, argument = text.partition(" ") if isinstance(text, str) else ("", "", "")
        if name not in FORMATS or (argument and not FORMATS[name]):
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {text!r}.")
        return cls(name, argument.strip())


def parse_hints(display: Mapping[str, Any]) -> dict[Names, Hint]:
    """Parse display hints by member name, or by JSON pointer without positions in lists."""
    return {parse_way(way): Hint.parse(text) for way, text in display.items()}


def parse_way(way: str) -> Names:
    """Return the names in a JSON pointer; any other text is the name of a member."""
    return tuple(parse_pointer(way)) if way.startswith("/") else (way,)


def get_names(way: Iterable[str | int]) -> Names:
    """Return the names on the path to a value."""
    return tuple(part for part in way if isinstance(part, str))
