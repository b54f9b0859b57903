"""URL converter for thread ids, which may contain any characters."""

from __future__ import annotations

from urllib.parse import unquote

_DOTS = {".": "%2E", "..": "%2E%2E"}


class ThreadIdConverter:
    """Path segment with a thread id.

    Thread ids may contain slashes and dot segments. Servers decode escaped slashes before routing,
    and clients resolve dot segments. Slashes, dot segments and percent signs are therefore escaped
    twice: by this converter, and by Django's ``reverse()``. This converter doesn't change other
    characters.
    """

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        found = unquote(value, errors="strict")
        if "\0" in found:  # Databases can't search for NUL.
            raise ValueError(value)
        return found

    def to_url(self, value: str) -> str:
        return _DOTS.get(value) or value.replace("%", "%25").replace("/", "%2F")
