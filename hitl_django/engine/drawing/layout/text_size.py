"""Measurement of texts, and line breaking."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

#: Upper limits of character widths and line height for any font, at a font size of 13.
LETTER, WIDE, LINE = 7.4, 13.5, 17.0
#: The maximum number of characters per line, and of lines per name.
LONGEST, LINES = 30, 3

Say = Callable[[str], str]


def measure_text(text: str) -> float:
    """Return an upper limit for the width of a text. The unit is 1/13 of the font size."""
    if text.isascii():
        return len(text) * LETTER
    return sum(WIDE if unicodedata.east_asian_width(one) in "WF" else LETTER for one in text)


def break_lines(text: str) -> tuple[str, ...]:
    """Split a name into lines, up to the maximum number of lines. A longer name is truncated.

    A line breaks after the last space, underscore, hyphen or dot in its second half. A line without
    these characters breaks at the maximum length.
    """
    lines: list[str] = []
    while text and len(lines) < LINES:
        cut = _edge(text)
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    if text:
        lines[-1] = lines[-1][: LONGEST - 1] + "…"
    return tuple(lines) or ("",)


def _edge(text: str) -> int:
    width, longest = 0.0, 0
    for longest, letter in enumerate(text, 1):
        width += measure_text(letter)
        if width > LONGEST * LETTER + 0.1:
            longest -= 1
            break
    if longest == len(text):
        return longest
    longest = max(longest, 1)
    edge = max(text.rfind(mark, 0, longest) for mark in " _-.")
    return edge + 1 if edge + 1 > longest // 2 else longest
