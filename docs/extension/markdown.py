"""The parts of a Markdown page: headings, tables, references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a row is one line, whatever its cells hold."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(value: object) -> str:
    """Return a value as code."""
    return f"`{value}`"


def listed(values: Iterable[object]) -> str:
    """Return several values as code, one after the other."""
    return ", ".join(map(code, values))


def target(label: str, heading: str, level: int) -> str:
    """Return a heading that other pages can refer to by a label."""
    return f"({label})=\n{'#' * level} {heading}"


def directive(name: str, argument: str, body: str = "", **options: object) -> str:
    """Return a directive with its options and its content."""
    fence = "````" if "```" in body else "```"
    lines = [f"{fence}{{{name}}} {argument}".rstrip()]
    lines += [f":{key.replace('_', '-')}: {value}".rstrip() for key, value in options.items()]
    return "\n".join([*lines, "", body, fence]) if body else "\n".join([*lines, fence])


def page(parts: Iterable[str]) -> str:
    """Return parts with a blank line between them."""
    return "\n\n".join(part for part in parts if part)


def from_docstring(text: str) -> str:
    """Return a docstring's reStructuredText as Markdown: its code is all that differs."""
    return text.replace("``", "`")
