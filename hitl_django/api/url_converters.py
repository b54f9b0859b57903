"""URL converter for thread ids, which the project chooses."""

from __future__ import annotations

from urllib.parse import unquote

_DOTS = {".": "%2E", "..": "%2E%2E"}


class ThreadIdConverter:
    """Path segment with a thread id of any characters.

    Thread ids may contain slashes, which servers decode before routing, and dot segments, which
    clients resolve. Slashes, percent signs and such dots are therefore escaped once here, and again
    when the URL is built. Other ids stay unchanged.
    """

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        found = unquote(value, errors="strict")
        if "\0" in found:  # databases can't search for NUL
            raise ValueError(value)
        return found

    def to_url(self, value: str) -> str:
        return _DOTS.get(value) or value.replace("%", "%25").replace("/", "%2F")
