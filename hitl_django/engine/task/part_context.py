"""A view of the running task's context for a part of the task, such as a tool call."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..savers.checkpoint import Commit
from ..types import Expiry
from .context import TaskContext


class PartContext(ABC):
    """A view of the running task's context for one part of the task, such as a tool call.

    The keys of interrupts and once() results contain the name of the part, so they don't depend on
    the order in which the parts run. ``perform(function, *args)`` calls a function that uses the
    saver, on the OS thread on which the saver must be called.
    """

    def __init__(self, context: TaskContext, perform: Callable[..., Any]) -> None:
        self._context, self.perform = context, perform
        # These attributes are read often, and __getattr__ is slow.
        self.task, self.run = context.task, context.run
        self._interrupts: dict[str, Iterator[int]] = defaultdict(itertools.count)

    @abstractmethod
    def get_part(self) -> str:
        """Return the name of the part that is running, or an empty string outside of parts.

        The name is unique within the task, and the same whenever the task runs.
        """

    @property
    def full_context(self) -> TaskContext:
        """The context of the task to which the part belongs."""
        return self._context.full_context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def ask(
        self,
        value: Any,
        schema: Any,
        key: str | None,
        expires: Expiry | None = None,
        review_options: Any = None,
    ) -> Any:
        """Return the resume value of an interrupt, or pause the task.

        Inside a part, the name of the part is added to ``key``. If ``key`` is None, the interrupt's
        key is the name of the part, and the keys of further interrupts also contain a number.
        """
        return self._context.ask(value, schema, self._make_key(key), expires, review_options)

    def _make_key(self, key: str | None) -> str:
        part = self.get_part()
        if key is not None:
            return f"{part}:{key}" if part else key
        count = self._count_interrupt(part)
        return f"{part}#{count}" if count or not part else part

    def _count_interrupt(self, part: str) -> int:
        """Return the number of earlier interrupts without explicit key in this part and attempt."""
        return next(self._interrupts[part])

    @property
    def once(self) -> dict[str, Any]:
        """The results of once() in this part, by key."""
        prefix, known = self._get_prefix(), self._context.once
        size = len(prefix)
        return {key[size:]: known[key] for key in known if key.startswith(prefix)}

    def lock_key(self, key: str) -> AbstractContextManager[None]:
        return self._context.lock_key(self._get_prefix() + key)

    def remember(self, key: str, result: Any) -> None:
        self._context.remember(self._get_prefix() + key, result)

    def remember_stored(self, key: str, result: Any) -> None:
        """Save a result of once() in the task's context after a commit has stored it."""
        self._context.remember_stored(self._get_prefix() + key, result)

    def build_results_with(self, key: str, result: Any) -> Commit | None:
        """Return a commit that stores the task's results of once() and a new result of this part.

        Return None if nothing can be stored.
        """
        return self._context.build_results_with(self._get_prefix() + key, result)

    def _get_prefix(self) -> str:
        part = self.get_part()
        return f"tool:{part}/" if part else ""
