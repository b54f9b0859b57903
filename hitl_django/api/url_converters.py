"""URL converter for thread ids, which the project chooses."""

from __future__ import annotations

from urllib.parse import unquote

_DOTS = {".": "%2E", "..": "%2E%2E"}


class ThreadIdConverter:
    """Path segment with a thread id of any characters.

    Thread ids may contain slashes and dot segments. Servers decode escaped slashes before routing,
    and clients resolve dot segments. Both are therefore escaped once here, as are percent signs,
    and again when the URL is built. Other ids stay unchanged.
    """

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        found = unquote(value, errors="strict")
        if "\0" in found:  # databases can't search for NUL
            raise ValueError(value)
        return found

    def to_url(self, value: str) -> str:
        return _DOTS.get(value) or value.replace("%", "%25").replace("/", "%2F")
