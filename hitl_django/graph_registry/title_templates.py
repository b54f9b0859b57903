"""Titles of tool calls, as defined in a graph's review policy."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any


def check_title(tool: Any, title: Any) -> None:
    """Check that the title of a tool is a function or a valid format string.

    Raises:
        TypeError: the title is neither a function nor a str, or the tool is not a str.
        ValueError: the format string is invalid, or a placeholder isn't the plain name of an
            argument.
    """
    if not isinstance(tool, str):
        raise TypeError(f"titles must map tool names to titles, not {tool!r}.")
    if callable(title):
        return
    if not isinstance(title, str):
        raise TypeError(f"The title of {tool!r} must be a str or a function, not {title!r}.")
    if not title.strip():
        raise ValueError(f"The title of {tool!r} is empty.")
    for name, spec, conversion in _list_fields(title):
        if not name or spec or conversion or not name.replace("-", "_").isidentifier():
            raise ValueError(
                f"The title of {tool!r} may contain only names of arguments in braces, "
                f"such as {{order}}, not {title!r}."
            )


def _list_fields(template: str) -> list[tuple[str, str, str]]:
    return [
        (name, spec or "", conversion or "")
        for _, name, spec, conversion in Formatter().parse(template)
        if name is not None
    ]


def fill_title(title: Any, arguments: Mapping[str, Any]) -> str:
    """Return the title for a tool call.

    ``arguments`` are the arguments of the call, as texts or JSON values.

    Raises:
        KeyError: the call lacks an argument of the format string.
    """
    if callable(title):
        return str(title(dict(arguments)))
    parts = []
    for before, name, _, _ in Formatter().parse(title):
        parts += [before, "" if name is None else str(arguments[name])]
    return "".join(parts)
