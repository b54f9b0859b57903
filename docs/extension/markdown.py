"""Elements of a Markdown page: headings, tables, references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: Elements of MyST that other readers of Markdown don't know, with their replacements.
_PLAIN = (
    (
        r"(?s)```\{confval\} (\w+)\n:type: ([^\n]*)\n:default: ([^\n]*)\n\n(.*?)\n```",
        r"### `\1`\n\n\4\n\nType: \2. Default: \3.",
    ),
    (r"```\{code-block\} (\w+)\n+", r"```\1\n"),
    (r"\{py:\w+\}`([^`<]+) <[^`>]+>`", r"`\1`"),
    (r"(?m)^\(([\w-]+)\)=$", r'<a id="\1"></a>\n'),
    (r"\(#http-schema-", "(http-objects.md#http-schema-"),
    (r"(?m) +$", ""),
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; line breaks in cells are removed."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(value: object) -> str:
    """Return a value as code."""
    return f"`{value}`"


def listed(values: Iterable[object]) -> str:
    """Return several values as code, separated by commas."""
    return ", ".join(map(code, values))


def target(label: str, heading: str, level: int) -> str:
    """Return a heading with a reference label."""
    return f"({label})=\n{'#' * level} {heading}"


def directive(name: str, argument: str, body: str = "", **options: object) -> str:
    """Return a directive with its options and content."""
    fence = "````" if "```" in body else "```"
    lines = [f"{fence}{{{name}}} {argument}".rstrip()]
    lines += [f":{key.replace('_', '-')}: {value}".rstrip() for key, value in options.items()]
    return "\n".join([*lines, "", body, fence]) if body else "\n".join([*lines, fence])


def page(parts: Iterable[str]) -> str:
    """Return the parts separated by blank lines."""
    return "\n\n".join(part for part in parts if part)


def to_plain(text: str) -> str:
    """Convert MyST to Markdown without directives, roles and labels."""
    for pattern, replacement in _PLAIN:
        text = re.sub(pattern, replacement, text)
    return text


def from_docstring(text: str) -> str:
    """Convert a docstring from reStructuredText to Markdown; only inline code differs."""
    return text.replace("``", "`")
