"""A task's memory: what was stored of it when it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ids
from ..types import Interrupt, MissingResume
from .task_status import TaskStatus

UNANSWERED = MissingResume()


class TaskMemory:
    """What a task knows from earlier attempts: answers, questions, results of once().

    ``fingerprints`` are those of its questions, by position or key. There are none, too, where the
    task has asked nothing but what it waits for: ``waiting`` shows that by itself. ``voided`` are
    the kinds of answers, RESUME and KEYED, of which one was taken back. A task that failed and is
    to be tried again has ``attempts``: how many there were, when the first one began, and when the
    next one may, both in seconds since the epoch.
    """

    __slots__ = ("answers", "attempts", "fingerprints", "keyed", "once", "voided", "waiting")

    def __init__(
        self,
        answers: Sequence[Any] = (),
        keyed: dict[str, Any] | None = None,
        fingerprints: dict[str, str] | None = None,
        once: dict[str, Any] | None = None,
    ) -> None:
        self.answers = answers
        self.keyed, self.fingerprints, self.once = keyed or {}, fingerprints or {}, once or {}
        self.waiting: Sequence[Interrupt] = ()
        self.voided: frozenset[str] = frozenset()
        self.attempts: tuple[int, float, float] | None = None

    @classmethod
    def from_status(cls, status: TaskStatus) -> TaskMemory:
        """Return what the stored writes of a task say."""
        memory = cls(status.answers, status.keyed, dict(status.fingerprints), dict(status.once))
        memory.waiting = status.interrupts
        memory.attempts = status.attempts and tuple(status.attempts)
        return memory

    def get_fingerprint(self, name: str) -> str | None:
        """Return the fingerprint of the question of this id that the task waits for."""
        for interrupt in self.waiting:
            if interrupt.id == name:
                try:
                    return ids.hash_json(interrupt.value)
                except (TypeError, ValueError):
                    return None  # another program made it: what this one asks is JSON
        return None


#: Of a task that runs for the first time.
NO_MEMORY = TaskMemory()
