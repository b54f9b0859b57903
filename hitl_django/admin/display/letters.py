"""Letters of avatars."""

from __future__ import annotations

#: Number of letters of an avatar.
LETTERS = 2


def get_letters(name: str) -> str:
    """Return the initials of a name; for a single word, its first letters."""
    words = name.split()
    letters = "".join(word[0] for word in words[:LETTERS]) if len(words) > 1 else name[:LETTERS]
    return letters.upper()
