"""Status of tasks by their stored writes, and which answer belongs to which question.

Answers are kept under (task, position) only. There is no anonymous answer for whoever asks next,
so a late, repeated or crossed answer finds no question to reach.
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
    """What the stored writes of one task say about it."""

    __slots__ = (
        "answers", "attempts", "error", "fingerprints", "finished", "handled", "interrupts",
        "keyed", "once", "output",
    )  # fmt: skip

    def __init__(self) -> None:
        self.output: list[tuple[str, Any]] = []
        self.interrupts: tuple[Interrupt, ...] = ()
        self.answers: list[Any] = []
        self.keyed: dict[str, Any] = {}
        #: Fingerprints of the questions it has asked, by position or ``#key``.
        self.fingerprints: dict[str, str] = {}
        self.once: dict[str, Any] = {}
        self.error: Any = None
        #: The message of its failure, where that goes to an error handler.
        self.handled: str | None = None
        self.finished = False
        #: How often it was tried, where it waits to be tried again (see Memory).
        self.attempts: Any = None

    @classmethod
    def ended(cls, output: Iterable[tuple[str, Any]]) -> TaskStatus:
        """Return the status of a task that has finished with these writes."""
        status = cls()
        status.finished, status.output = True, list(output)
        return status

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """The questions that wait for an answer.

        A failure that goes to a handler ends a task: nobody is going to use another answer.
        """
        return () if self.finished or self.handled is not None else self.interrupts


def read_task_statuses(writes: Iterable[PendingWrite]) -> dict[str, TaskStatus]:
    """Return the status of each task that has stored writes.

    A task has finished when it stored anything but control writes.
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
            # LangGraph stores the node's name alone.
            status.handled = "" if isinstance(value, str) else value[1]
        elif channel not in (SCHEDULED, CHANGED):
            status.finished = True
            status.output.append((channel, value))
    return statuses


def record_answer(answers: Sequence[Any], index: int, value: Any) -> list[Any]:
    """Return a task's stored answers with ``value`` as the answer at ``index``.

    An answer that is there already is replaced, with all that were given after it: they were
    answers to what the old one led to.
    """
    if index < len(answers):
        later = answers[index + 1 :] if answers[index] == MissingResume() else []
        return [*answers[:index], value, *later]
    return [*answers, *[MissingResume()] * (index - len(answers)), value]


def remove_answer(answers: Sequence[Any], index: int) -> list[Any]:
    """Return a task's stored answers without the one at ``index``, which it has not seen yet.

    Later ones stay: they are to questions that were open beside it.
    """
    left = [*answers]
    if index < len(left):
        left[index] = MissingResume()
    while left and left[-1] == MissingResume():
        left.pop()
    return left


def is_resume_map(resume: Any) -> bool:
    """Return whether a resume value names the questions it answers.

    It does where it is a dict and every key is a question's id; the empty dict counts.
    """
    return isinstance(resume, dict) and all(
        isinstance(key, str) and _ID.fullmatch(key) for key in resume
    )


def plan_resume(resume: Any, open_ids: Sequence[str]) -> dict[str, Any]:
    """Return the answers by question id.

    ``resume`` is the answer to the one open question, or a map from ids to answers. Raises
    UnknownInterruptError, before anything is stored, where it doesn't say which question it
    answers or names one that isn't open.
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
    """Return a task's answers by position: those stored, with those that were given now.

    One that is given now may answer an open question, or correct an earlier answer of a task that
    didn't finish.
    """
    stored: Sequence[Any] = status.answers if status else ()
    open_count = len(status.interrupts) if status else 0
    for index in range(len(stored) + max(open_count, 1)):
        name = ids.make_interrupt_id(ns, index)
        if name in answers:
            stored = record_answer(stored, index, answers[name])
    return stored


def list_own_interrupts(ns: str, status: TaskStatus) -> list[tuple[Interrupt, int | str | None]]:
    """Return a task's questions, each with its position or key.

    None stands with a question that a graph below the task asked: who answers it, the task alone
    can't know.
    """
    count = len(status.answers) + len(status.interrupts)
    slots: dict[str, int | str] = {
        ids.make_interrupt_id(ns, index): index for index in range(count)
    }
    for slot in status.fingerprints:
        if slot.startswith("#"):
            slots[ids.make_keyed_id(ns, slot[1:])] = slot[1:]
    return [(interrupt, slots.get(interrupt.id)) for interrupt in status.interrupts]
