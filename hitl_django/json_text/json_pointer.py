"""JSON Pointer (RFC 6901): escaping, parsing, and conversion of engine paths."""

from __future__ import annotations

import re
from collections.abc import Iterable

_STEP = re.compile(r"\[(\d+)\]|\.([^.\[]+)")


def escape_part(part: str | int) -> str:
    """Return a member name or a list index as an escaped part of a JSON pointer."""
    return str(part).replace("~", "~0").replace("/", "~1")


def format_pointer(parts: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer. The empty path refers to the whole document."""
    return "".join(f"/{escape_part(part)}" for part in parts)


def parse_pointer(pointer: str) -> list[str]:
    """Return the unescaped parts of a JSON pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def read_index(part: str) -> int | None:
    """Return the list index in a part of a JSON pointer, or None if the part isn't an index.

    The number of digits is limited, because Python raises an error for thousands of digits.
    """
    return int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else None


def split_path(path: str) -> list[str]:
    """Return the parts of an engine path such as ``$.items[0].price``."""
    return [index or name for index, name in _STEP.findall(path)]
