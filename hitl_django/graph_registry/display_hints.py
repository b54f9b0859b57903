"""Hints: the format in which the page of a question shows a value, such as ``"money EUR"``.

They come from code only, from a graph's review policy or a response schema. Nothing that a payload
says is shown in another way than as plain text unless there is a hint for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hitl_django.json_text.json_pointer import parse_pointer

#: The formats, and what may follow the name of one.
FORMATS = {
    "code": "",
    "date": "",
    "file": "the folder to serve files from",
    "image": "the folder to serve images from",
    "link": "",
    "markdown": "",
    "money": "the currency",
}

#: The names that lead to a value; lists on the way count for nothing.
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hint:
    """A format, and what follows its name."""

    format: str
    argument: str = ""

    @property
    def is_laid_out(self) -> bool:
        """Return whether a text of the format reads otherwise than it is typed."""
        return self.format == "markdown"

    @classmethod
    def parse(cls, text: Any) -> Hint:
        """Read ``"money EUR"``; ValueError for what is no format."""
        name, _, argument = text.partition(" ") if isinstance(text, str) else ("", "", "")
        if name not in FORMATS or (argument and not FORMATS[name]):
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {text!r}.")
        return cls(name, argument.strip())


def parse_hints(display: Mapping[str, Any]) -> dict[Names, Hint]:
    """Read hints by a member's name, or by a JSON pointer that passes over places in lists."""
    return {
        tuple(parse_pointer(way)) if way.startswith("/") else (way,): Hint.parse(text)
        for way, text in display.items()
    }


def get_names(way: Iterable[str | int]) -> Names:
    """Return the names on the way to a value."""
    return tuple(part for part in way if isinstance(part, str))
