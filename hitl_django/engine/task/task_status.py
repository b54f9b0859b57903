"""The status of tasks, read from their stored writes, and the assignment of resume values.

Each resume value is stored for one task and one position. A late, repeated or misdirected resume
value therefore can't resolve another interrupt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .. import ids
from ..constants import (
    ASKED,
    ATTEMPTS,
    CHANGED,
    ERROR,
    ERROR_SOURCE_NODE,
    INTERRUPT,
    KEYED,
    NULL_TASK_ID,
    ONCE,
    RESUME,
    SCHEDULED,
)
from ..errors import UnknownInterruptError
from ..savers.checkpoint import PendingWrite
from ..types import Interrupt, MissingResume

_ID = re.compile(r"[0-9a-f]{32}")


class TaskStatus:
    """The status of one task, read from its stored writes."""

    __slots__ = (
        "answers", "attempts", "error", "fingerprints", "finished", "handled", "interrupts",
        "keyed", "once", "output",
    )  # fmt: skip

    def __init__(self) -> None:
        self.output: list[tuple[str, Any]] = []
        self.interrupts: tuple[Interrupt, ...] = ()
        self.answers: list[Any] = []
        self.keyed: dict[str, Any] = {}
        #: Fingerprints of the task's interrupts, by position or ``#key``.
        self.fingerprints: dict[str, str] = {}
        self.once: dict[str, Any] = {}
        self.error: Any = None
        #: The message of the task's failure if an error handler handles the failure, else None.
        self.handled: str | None = None
        self.finished = False
        #: The number and times of attempts before a retry (see TaskMemory).
        self.attempts: Any = None

    @classmethod
    def ended(cls, output: Iterable[tuple[str, Any]]) -> TaskStatus:
        """Return the status of a task that finished with the given writes."""
        status = cls()
        status.finished, status.output = True, list(output)
        return status

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """The pending interrupts of the task.

        If an error handler has handled the failure of the task, none of its interrupts is pending.
        """
        return () if self.finished or self.handled is not None else self.interrupts


def read_task_statuses(writes: Iterable[PendingWrite]) -> dict[str, TaskStatus]:
    """Return the status of each task that has stored writes, by task id.

    A task has finished if it has a stored write other than control writes.
    """
    statuses: dict[str, TaskStatus] = {}
    for task_id, channel, value in writes:
        if task_id == NULL_TASK_ID:
            continue
        status = statuses.get(task_id)
        if status is None:
            status = statuses[task_id] = TaskStatus()
        if channel == INTERRUPT:
            status.interrupts = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        elif channel == RESUME:
            status.answers = list(value) if isinstance(value, list) else [value]
        elif channel == ERROR:
            status.error = value
        elif channel == KEYED:
            status.keyed = value
        elif channel == ASKED:
            status.fingerprints = value
        elif channel == ONCE:
            status.once = value
        elif channel == ATTEMPTS:
            status.attempts = value
        elif channel == ERROR_SOURCE_NODE:
            # LangGraph stores only the node's name.
            status.handled = "" if isinstance(value, str) else value[1]
        elif channel not in (SCHEDULED, CHANGED):
            status.finished = True
            status.output.append((channel, value))
    return statuses


def record_answer(answers: Sequence[Any], index: int, value: Any) -> list[Any]:
    """Return a task's resume values with ``value`` at ``index``.

    If the position already has a value, that value is replaced. All later values are then removed,
    because they depended on the replaced value.
    """
    if index < len(answers):
        later = answers[index + 1 :] if answers[index] == MissingResume() else []
        return [*answers[:index], value, *later]
    return [*answers, *[MissingResume()] * (index - len(answers)), value]


def remove_answer(answers: Sequence[Any], index: int) -> list[Any]:
    """Return a task's resume values without the one at ``index``. A placeholder takes its position.

    Later values remain, because they belong to interrupts that were pending at the same time.
    """
    left = [*answers]
    if index < len(left):
        left[index] = MissingResume()
    while left and left[-1] == MissingResume():
        left.pop()
    return left


def is_resume_map(resume: Any) -> bool:
    """Return whether ``resume`` is a dict whose keys are all interrupt ids.

    An empty dict counts.
    """
    return isinstance(resume, dict) and all(
        isinstance(key, str) and _ID.fullmatch(key) for key in resume
    )


def plan_resume(resume: Any, open_ids: Sequence[str]) -> dict[str, Any]:
    """Return the resume values by interrupt id.

    ``resume`` is the value for the only pending interrupt, or a dict from interrupt ids to values.
    ``open_ids`` are the ids of the pending interrupts.

    Raises:
        UnknownInterruptError: an id isn't pending. Or a value without an id is given, and several
            interrupts are pending.
    """
    if not is_resume_map(resume):
        if len(open_ids) > 1:
            raise UnknownInterruptError(
                "When there are multiple pending interrupts, you must specify the interrupt id "
                f"when resuming: Command(resume={{id: answer}}). Open: {', '.join(open_ids)}.",
                reason="ambiguous",
                interrupt_ids=(),
                pending_ids=open_ids,
            )
        return {open_ids[0]: resume} if open_ids else {}
    if not resume:
        raise UnknownInterruptError(
            "The resume map contains no interrupt id.",
            reason="empty_map",
            interrupt_ids=(),
            pending_ids=open_ids,
        )
    unknown = sorted(resume.keys() - set(open_ids))
    if unknown:
        raise UnknownInterruptError(
            f"Unknown or already-consumed interrupt: {unknown[0]}. "
            f"Open: {', '.join(sorted(open_ids)) or 'none'}.",
            reason="not_pending",
            interrupt_ids=unknown,
            pending_ids=open_ids,
        )
    return dict(resume)


def collect_answers(ns: str, status: TaskStatus | None, answers: dict[str, Any]) -> Sequence[Any]:
    """Return a task's stored and new resume values, in order of position.

    ``answers`` are the new resume values by interrupt id. ``ns`` is the namespace from which the
    ids of the task's interrupts are computed. A new value resolves a pending interrupt or replaces
    the stored value at the same position.
    """
    stored: Sequence[Any] = status.answers if status else ()
    open_count = len(status.interrupts) if status else 0
    for index in range(len(stored) + max(open_count, 1)):
        name = ids.make_interrupt_id(ns, index)
        if name in answers:
            stored = record_answer(stored, index, answers[name])
    return stored


def list_own_interrupts(ns: str, status: TaskStatus) -> list[tuple[Interrupt, int | str | None]]:
    """Return a task's pending interrupts, each with its position or key.

    ``ns`` is the namespace from which the ids of the task's own interrupts are computed. An
    interrupt of a subgraph has None as position, because only the subgraph can resolve it.
    """
    count = len(status.answers) + len(status.interrupts)
    slots: dict[str, int | str] = {
        ids.make_interrupt_id(ns, index): index for index in range(count)
    }
    for slot in status.fingerprints:
        if slot.startswith("#"):
            slots[ids.make_keyed_id(ns, slot[1:])] = slot[1:]
    return [(interrupt, slots.get(interrupt.id)) for interrupt in status.interrupts]
