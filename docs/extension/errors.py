"""Reference of the errors: their base classes, causes and API responses."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from . import markdown, sources


def classes() -> list[type[BaseException]]:
    """Return the errors in the order of their definition."""
    return [
        found
        for path in sources.ERRORS
        for found in vars(sources.load(path)).values()
        if inspect.isclass(found) and issubclass(found, BaseException) and found.__module__ == path
    ]


def public_path(error: type[BaseException]) -> str:
    """Return the shortest import path of an error."""
    name = error.__name__
    module = "hitl_django.errors" if name in sources.errors() else error.__module__
    return f"{module}.{name}"


def answers() -> dict[str, list[tuple[str, Any]]]:
    """Return the errors and problem types by problem code."""
    found = defaultdict(list)
    for error, answer in _find_problem_types().items():
        found[answer.code].append((error.__name__, answer))
    return dict(sorted(found.items()))


def _find_problem_types() -> dict[type[BaseException], Any]:
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
                ", ".join(
                    sorted({text for _, answer in found for text in _iterate_members(answer)})
                ),
            ]
            for code, found in answers().items()
        ),
    )


def _status(number: int) -> str:
    return f"{int(number)} {HTTPStatus(number).phrase}"


def _iterate_members(answer: Any) -> Iterator[str]:
    yield from map(markdown.code, answer.extensions.schema)


def table() -> str:
    """Return the table of all errors, base classes first."""
    answered = _find_problem_types()
    return markdown.table(
        ["error", "subclass of", "over HTTP", "meaning"],
        (
            [
                markdown.code(error.__name__),
                markdown.listed(base.__name__ for base in error.__bases__),
                _format_answer(answered.get(error)),
                markdown.from_docstring((inspect.getdoc(error) or "").partition("\n\n")[0]),
            ]
            for error in classes()
        ),
    )


def _format_answer(answer: Any) -> str:
    return "" if answer is None else f"{_status(answer.status)}, {markdown.code(answer.code)}"


def tree() -> str:
    """Return the documentation of every error, base classes first."""
    answered = _find_problem_types()
    return markdown.page(_section(error, answered) for error in classes())


def _section(error: type[BaseException], answered: Any) -> str:
    lines = [f".. autoexception:: {public_path(error)}", "   :show-inheritance:"]
    if answer := answered.get(error):
        lines += ["", f"   Over HTTP: {_format_answer(answer).replace('`', '``')}."]
    return markdown.directive("eval-rst", "", "\n".join(lines))
