"""Parts of the reference that are committed as plain Markdown, for readers without the website.

A page contains such a part between two comments. ``python -m docs --write`` updates the text
between the comments, and the website replaces it with the directive of the part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from . import errors, langgraph_methods, markdown, models, names, operations, settings

#: Functions that return the committed parts, by directive.
PARTS = {
    "hitl-errors": errors.table,
    "hitl-http-objects": operations.objects,
    "hitl-http-operations": operations.page,
    "hitl-http-overview": operations.overview,
    "hitl-http-problems": operations.problems,
    "hitl-langgraph-methods": langgraph_methods.page,
    "hitl-models": models.page,
    "hitl-names": names.index,
    "hitl-problems": errors.problems,
    "hitl-settings": settings.page,
}
REFERENCE = Path(__file__).resolve().parents[1] / "reference"

_PART = re.compile(
    r"(?s)(?P<begin><!-- (?P<name>hitl-[\w-]+): written by python -m docs --write -->\n)"
    r".*?(?P<end><!-- end of (?P=name) -->)"
)


def list_names(text: str) -> list[str]:
    """Return the directives whose parts the text of a page contains."""
    return [found["name"] for found in _PART.finditer(text)]


def insert_directives(text: str) -> str:
    """Replace the committed parts of a page by their directives."""
    return _PART.sub(lambda found: f"```{{{found['name']}}}\n```", text)


def update(text: str) -> str:
    """Return the text of a page with current committed parts."""
    return _PART.sub(
        lambda found: (
            f"{found['begin']}\n{markdown.to_plain(PARTS[found['name']]())}\n\n{found['end']}"
        ),
        text,
    )


def find_outdated() -> Iterator[tuple[Path, str]]:
    """Yield the pages whose committed parts are not current, each with its current text."""
    for path in sorted(REFERENCE.glob("*.md")):
        text = path.read_text()
        if (current := update(text)) != text:
            yield path, current
