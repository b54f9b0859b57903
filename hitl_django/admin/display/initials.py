"""Initials of names, shown in avatars."""

from __future__ import annotations

#: Number of letters of an avatar.
LETTERS = 2


def get_initials(name: str) -> str:
    """Return the initials of a name, or the first letters of a single word."""
    # Invisible characters could change the direction of the text around the avatar.
    visible = ("".join(filter(str.isprintable, word)) for word in name.split())
    words = [word for word in visible if word]
    letters = [word[0] for word in words[:LETTERS]] if len(words) > 1 else words
    return "".join(letters)[:LETTERS].upper()
