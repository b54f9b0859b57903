"""The errors, their base classes and their HTTP responses."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from . import markdown, sources


def classes() -> list[type[BaseException]]:
    """Return the errors in the order in which their modules define them."""
    return [
        found
        for path in sources.ERRORS
        for found in vars(sources.load(path)).values()
        if inspect.isclass(found) and issubclass(found, BaseException) and found.__module__ == path
    ]


def public_path(error: type[BaseException]) -> str:
    """Return the shortest path from which an error is imported."""
    name = error.__name__
    module = "hitl_django.errors" if name in sources.errors() else error.__module__
    return f"{module}.{name}"


def answers() -> dict[str, list[tuple[str, Any]]]:
    """Return by problem code the errors that are answered so, and how."""
    found = defaultdict(list)
    for error, answer in _answered().items():
        found[answer.code].append((error.__name__, answer))
    return dict(sorted(found.items()))


def _answered() -> dict[type[BaseException], Any]:
    """Return the problem type of each error: from the API's table, or as its class says."""
    find = sources.load(sources.FIND_HTTP_ERROR)
    own = {error: find(error) for error in classes() if "http_status" in vars(error)}
    return sources.load(sources.HTTP_ERRORS) | own


def problems() -> str:
    """Return the table of problem codes."""
    return markdown.table(
        ["code", "status", "errors", "additional fields"],
        (
            [
                f"{markdown.code(code)}",
                ", ".join(sorted({_status(answer.status) for _, answer in found})),
                markdown.listed(name for name, _ in found),
                ", ".join(sorted({text for _, answer in found for text in _members(answer)})),
            ]
            for code, found in answers().items()
        ),
    )


def _status(number: int) -> str:
    return f"{int(number)} {HTTPStatus(number).phrase}"


def _members(answer: Any) -> Iterator[str]:
    """Give what a problem says besides what all of them say."""
    yield from map(markdown.code, answer.extensions.schema)


def tree() -> str:
    """Return every error with its documentation, what it derives from before it."""
    answered = _answered()
    return markdown.page(_section(error, answered) for error in classes())


def _section(error: type[BaseException], answered: Any) -> str:
    lines = [f".. autoexception:: {public_path(error)}", "   :show-inheritance:"]
    if answer := answered.get(error):
        lines += ["", f"   Over HTTP: {_status(answer.status)}, ``{answer.code}``."]
    return markdown.directive("eval-rst", "", "\n".join(lines))
