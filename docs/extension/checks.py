"""Reference of the system checks, from their source code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import hitl_django

from . import markdown

SEVERITIES = ("Critical", "Error", "Warning", "Info")


@dataclass(frozen=True, order=True)
class Message:
    """Message of a check, with placeholders in braces as in an f-string."""

    id: str
    severity: str
    words: str
    hint: str


def messages() -> list[Message]:
    """Return all messages of the package's checks, sorted by id."""
    package = Path(hitl_django.__file__).parent
    return sorted(
        {found for path in package.rglob("*.py") for found in _messages_of(path.read_text())}
    )


def _messages_of(source: str) -> Iterator[Message]:
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if node.func.attr in SEVERITIES and "id" in given:
            hint = given.get("hint")
            yield Message(
                _text(given["id"]),
                node.func.attr,
                _text(node.args[0]),
                _text(hint) if hint is not None else "",
            )


def _text(node: ast.expr) -> str:
    """Return the text of an expression, with placeholders for computed parts."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values)).replace("….", "…")
    if isinstance(node, ast.FormattedValue):
        return _text(node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return f"{{{ast.unparse(node)}}}"
    return "…"


def page() -> str:
    """Return a section for each id, with its messages and hints."""
    return markdown.page(
        markdown.page([f"## `{name}`", *map(_paragraph, found)])
        for name, found in groupby(messages(), key=lambda message: message.id)
    )


def _paragraph(message: Message) -> str:
    words = f"**{message.severity}:** {_escape_markup(message.words)}"
    return f"{words}\\\n{_escape_markup(message.hint)}" if message.hint else words


def _escape_markup(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "*_`[]<>{}#" else letter for letter in text)
