"""Requests of a task to its driver: calls of functions, waits and reports to callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..savers.checkpoint import Commit
from .nodes import Action


class Call:
    """A request to call a function in the user's code."""

    __slots__ = ("action", "value")

    def __init__(self, action: Action, value: Any) -> None:
        self.action, self.value = action, value


class Wait:
    """A request to wait before the next attempt of a task.

    ``commit`` stores the number of attempts before the wait. ``commit`` is None if nothing can be
    stored.
    """

    __slots__ = ("commit", "seconds")

    def __init__(self, seconds: float, commit: Commit | None = None) -> None:
        self.seconds, self.commit = seconds, commit


class Report:
    """A request to report an event of the task to callbacks.

    The driver calls the function ``tell`` with ``arguments`` and with ``is_async``. If ``is_async``
    is true, ``tell`` returns an awaitable.
    """

    __slots__ = ("arguments", "tell")

    def __init__(self, tell: Callable[..., Any], *arguments: Any) -> None:
        self.tell, self.arguments = tell, arguments
