"""What a task asks of its driver: to call a function of the user's, to wait, to tell of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..savers.checkpoint import Commit
from .nodes import Action


class Call:
    """Asks for a function of the user's to be called."""

    __slots__ = ("action", "value")

    def __init__(self, action: Action, value: Any) -> None:
        self.action, self.value = action, value


class Wait:
    """Asks for a pause, before the next attempt at a task.

    ``commit`` (None where nothing is stored) comes first: it says how often the task was tried.
    """

    __slots__ = ("commit", "seconds")

    def __init__(self, seconds: float, commit: Commit | None = None) -> None:
        self.seconds, self.commit = seconds, commit


class Report:
    """Asks to tell callbacks of the task: by a function, to be called with ``is_async`` as well.

    Where that is true it returns an awaitable.
    """

    __slots__ = ("arguments", "tell")

    def __init__(self, tell: Callable[..., Any], *arguments: Any) -> None:
        self.tell, self.arguments = tell, arguments
