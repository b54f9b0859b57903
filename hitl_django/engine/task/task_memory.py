"""The results and resume values that a task stores between two attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ids
from ..types import Interrupt, MissingResume
from .task_status import TaskStatus

UNANSWERED = MissingResume()


class TaskMemory:
    """The data that a task keeps between attempts: resume values, interrupts, results of once().

    Each interrupt is identified by its key or, if it has no key, by its position in the task.

    - ``fingerprints`` are the hashes of interrupts, by position or key. The hashes are left out if
      the task's only interrupt is pending, because ``waiting`` contains this interrupt.
    - ``voided`` contains RESUME after an invalid resume value of an interrupt without a key was
      discarded, and KEYED after an invalid resume value of an interrupt with a key was discarded.
    - ``attempts`` contains the number of attempts, the start of the first attempt, and the earliest
      start of the next attempt. Both times are Unix times.
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
        """Return the memory of a task, read from its stored writes."""
        memory = cls(status.answers, status.keyed, dict(status.fingerprints), dict(status.once))
        memory.waiting = status.interrupts
        memory.attempts = status.attempts and tuple(status.attempts)
        return memory

    def get_fingerprint(self, name: str) -> str | None:
        """Return the hash of the pending interrupt with the id ``name``, or None."""
        for interrupt in self.waiting:
            if interrupt.id == name:
                try:
                    return ids.hash_json(interrupt.value)
                except (TypeError, ValueError):
                    # Another program created the interrupt, because payloads created by this
                    # package are always JSON.
                    return None
        return None


#: The memory of a task that runs for the first time.
NO_MEMORY = TaskMemory()
