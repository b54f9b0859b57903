"""The pages of the documentation for tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"(?ms)^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=fence)$")


@dataclass(frozen=True)
class Snippet:
    """A fenced code block: its language with options, and the lines before it."""

    info: str
    code: str
    above: int

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]


@dataclass(frozen=True)
class Page:
    """A Markdown page, identified by its path in the repository."""

    name: str

    @property
    def path(self) -> Path:
        return ROOT / self.name

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def snippets(self) -> tuple[Snippet, ...]:
        return tuple(
            Snippet(
                found["info"].strip(), found["code"], self.text.count("\n", 0, found.start("code"))
            )
            for found in _FENCE.finditer(self.text)
        )

    @property
    def programs(self) -> list[Snippet]:
        return [snippet for snippet in self.snippets if snippet.info == "python"]

    def __str__(self) -> str:
        return self.name


README = Page("README.md")
PAGES = [
    README,
    *(Page(str(path.relative_to(ROOT))) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
#: Pages from which a user learns the package, as opposed to reference pages.
GUIDES = [
    page for page in PAGES if not page.name.startswith(("docs/reference/", "docs/explanation/"))
]
