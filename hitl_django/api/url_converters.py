"""URL converters: a thread's id, which the host chooses, as one segment of a path."""

from __future__ import annotations

from urllib.parse import unquote

_DOTS = {".": "%2E", "..": "%2E%2E"}


class ThreadIdConverter:
    """A thread's id as one segment of a path, whatever characters it has.

    Those of a host may have slashes, which servers decode before anybody can tell them from the
    path's own, and dots, which clients take for directions. So slashes, percent signs and such
    dots are escaped once on their own, and a second time by whoever writes the address. Other ids
    stay what they are.
    """

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        found = unquote(value, errors="strict")
        if "\0" in found:  # which no database could look for
            raise ValueError(value)
        return found

    def to_url(self, value: str) -> str:
        return _DOTS.get(value) or value.replace("%", "%25").replace("/", "%2F")
