"""Listed differences, which are allowed, and refused methods."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .exchanges import FOLDER

_LISTED = tomllib.loads((FOLDER / "differences.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Difference:
    """A listed difference. ``methods`` is empty for a difference of several methods."""

    patterns: tuple[str, ...]
    reason: str
    methods: tuple[str, ...] = ()

    def find_pattern(self, method: str, found: str) -> str | None:
        """Return the pattern that matches a difference of a method, or None."""
        if self.methods and method not in self.methods:
            return None
        return next((each for each in self.patterns if fnmatchcase(found, each)), None)


def _read(name: str) -> list[Difference]:
    return [
        Difference(tuple(each["patterns"]), each["reason"], tuple(each.get("methods", ())))
        for each in _LISTED[name]
    ]


GENERAL, SPECIFIC = _read("general"), _read("difference")
#: Alternatives of the methods that get the status 501.
REFUSED: dict[str, str] = _LISTED["refused"]
#: The call in the script that is not a method of the SDKs: a conversation with AG-UI's agent.
AGENT = "ag_ui.run_agent"
