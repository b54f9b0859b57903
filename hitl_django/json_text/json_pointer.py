"""JSON Pointer (RFC 6901): its parts, escaped and unescaped; and paths that become pointers."""

from __future__ import annotations

import re
from collections.abc import Iterable

_STEP = re.compile(r"\[(\d+)\]|\.([^.\[]+)")


def escape_part(part: str | int) -> str:
    """Write a member's name, or a place in a list, as one part of a pointer."""
    return str(part).replace("~", "~0").replace("/", "~1")


def format_pointer(parts: Iterable[str | int]) -> str:
    """Write the way to a value as a pointer; no parts are the whole document."""
    return "".join(f"/{escape_part(part)}" for part in parts)


def parse_pointer(pointer: str) -> list[str]:
    """Return the parts of a pointer, with what was escaped in them as it was."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def read_index(part: str) -> int | None:
    """Return the index in a list that a part of a pointer names; None where it names none.

    Python refuses to read thousands of digits, and no list is that long.
    """
    return int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else None


def split_path(path: str) -> list[str]:
    """Return the parts of a path as the engine writes it, such as ``$.items[0].price``."""
    return [index or name for index, name in _STEP.findall(path)]
