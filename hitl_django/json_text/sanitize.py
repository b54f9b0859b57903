"""Sanitizing of untrusted text for storage and display, and formatting of titles and counts."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

TITLE_LENGTH = 300
TITLE_KEYS = ("title", "question", "message")

# Control characters, invisible characters (which can make "reject" look like "approve"), lone
# surrogates, and the two Unicode line separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def escape_invisible(text: str) -> str:
    """Return a text on one line, with invisible characters replaced by their code points."""
    line = " ".join(text.split())
    if line.isascii() and line.isprintable():
        return line
    return "".join(
        _code_point(char)
        if unicodedata.category(char) in _UNSEEN and not is_joiner(line, at)
        else char
        for at, char in enumerate(line)
    )


def is_joiner(text: str, at: int) -> bool:
    """Return whether the character at ``at`` joins letters or symbols, as in Persian or emoji."""
    if text[at] not in _JOINERS or not 0 < at < len(text) - 1:
        return False
    return not text[at - 1].isascii() and not text[at + 1].isascii()


def format_count(number: int, one: str, several: str) -> str:
    """Return the number with the noun in singular or plural, such as ``1 run`` or ``3 runs``."""
    return f"{number} {one if number == 1 else several}"


def escape_unstorable(text: str) -> str:
    """Return a text in which code points replace the characters that a database can't store.

    Raises:
        TypeError: the argument is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"Expected a str, not {text!r}.")
    return _UNSTORABLE.sub(lambda found: _code_point(found[0]), text)


def make_title(payload: Any, node: str) -> str:
    """Return an interrupt's title on one line, taken from its payload or else from its node."""
    text = payload
    if isinstance(payload, dict):
        text = next((payload[key] for key in TITLE_KEYS if _has_words(payload.get(key))), None)
    if not _has_words(text):
        return shorten(escape_invisible(f"{node} requests a review"))
    return shorten(escape_invisible(text))


def list_heading_keys(payload: Any, title: str) -> list[str]:
    """Return the keys of the payload values that are also the interrupt's title or reason.

    Pages show the title and the reason in the header, so they omit these values elsewhere.
    """
    if not isinstance(payload, dict):
        return []
    keys = [key for key in TITLE_KEYS if payload.get(key) == title][:1]
    why = payload.get("why")
    return [*keys, "why"] if why and isinstance(why, str) else keys


def shorten(line: str, length: int = TITLE_LENGTH) -> str:
    """Return a line shortened at a word boundary to at most ``length`` characters."""
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    word_edge = cut.rfind(" ")
    return (cut[:word_edge] if word_edge > length // 2 else cut).rstrip() + "…"


def _has_words(text: Any) -> bool:
    return isinstance(text, str) and not text.isspace() and text != ""


def _code_point(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
