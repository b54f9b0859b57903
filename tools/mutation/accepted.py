"""The list of accepted survivors: module, line, mutant, and the reason why no test is missing."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from .mutants import Mutant


@dataclass(frozen=True)
class Entry:
    """An accepted survivor.

    The text of the line identifies it, not the line number.
    """

    module: str
    line: str
    mutant: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, self.line, self.mutant

    def __str__(self) -> str:
        return f"{self.module}: {self.line}\n    {self.mutant}"


def read(path: Path) -> list[Entry]:
    """Return the entries of a list."""
    found = tomllib.loads(path.read_text())["survivor"] if path.exists() else []
    entries = [Entry(**each) for each in found]
    for entry in entries:
        if not entry.reason.strip():
            raise ValueError(f"There is no reason given for {entry}")
    return entries


def gone(entries: list[Entry], mutants: list[Mutant]) -> list[Entry]:
    """Return the entries for these modules that have no corresponding mutant."""
    made = {mutant.key for mutant in mutants}
    return [entry for entry in entries if entry.key not in made]


def noticed(entries: list[Entry], survived: set[Mutant], killed: set[Mutant]) -> list[Entry]:
    """Return the entries of which all mutants were tried and killed."""
    left = {mutant.key for mutant in survived}
    found = {mutant.key for mutant in killed} - left
    return [entry for entry in entries if entry.key in found]
