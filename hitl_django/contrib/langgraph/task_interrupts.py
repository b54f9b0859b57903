"""Interrupts of LangGraph's tasks, and validation of the responses.

LangGraph assigns responses to interrupts by position, even if the task now creates another
interrupt at this position. Hashes of a task's interrupts are therefore stored, and compared with
the interrupt when a response is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from hitl_django.engine import ids
from hitl_django.engine.constants import (
    ASKED,
    INTERRUPT,
    NS_END,
    NS_SEP,
    NULL_TASK_ID,
    PUSH,
    RESUME,
)
from hitl_django.engine.errors import InterruptChangedError
from hitl_django.engine.graph.subgraphs import split_path
from hitl_django.engine.payload import check_payload, list_formats
from hitl_django.engine.savers.checkpoint import (
    CheckpointTuple,
    Commit,
    PendingInterrupt,
    PendingWrite,
    TaskWrites,
)
from hitl_django.engine.types import Interrupt, RunnableConfig
from hitl_django.services.runs.state import render_json


@dataclass(frozen=True, slots=True)
class InterruptedTask:
    """A task with pending interrupts: its location, and the number of responses it has received."""

    config: RunnableConfig
    task_id: str
    task_path: str
    interrupts: Sequence[Interrupt]
    answered: int

    def called_by(self, other: InterruptedTask) -> bool:
        """Return whether the task ``other`` called this task, as in functional graphs."""
        called = self.task_path.startswith(f"~{PUSH}, {other.task_path}, ")
        return called and self.config == other.config

    def list_interrupts(self, ns: str) -> Iterator[PendingInterrupt]:
        """Yield the interrupts of the task in this namespace, without those of its subgraphs."""
        ref, name = self.config["configurable"], split_path(ns)[-1]
        own = ids.make_interrupt_id(ns, self.answered)
        for one in self.interrupts:
            if one.id == own:
                payload = check_payload(render_json(one.value))
                yield PendingInterrupt(
                    Interrupt(payload, one.id, response_schema=one.response_schema),
                    name, self.task_id, self.task_path, ref["checkpoint_ns"],
                    ref["checkpoint_id"], self.answered, payload_formats=list_formats(one.value),
                )  # fmt: skip


class TaskInterrupts:
    """The interrupts of the tasks of one run.

    ``misplaced`` is the error about a response that LangGraph was about to give to the wrong
    interrupt, or None. ``passed`` are the checkpoints with a breakpoint that a person has approved.
    """

    def __init__(self) -> None:
        self.misplaced: InterruptChangedError | None = None
        self.passed: set[str] = set()
        self._asking: dict[str, InterruptedTask] = {}
        #: Interrupts with keys, by id.
        self._keyed: dict[str, PendingInterrupt] = {}
        #: Hashes of the interrupts of each task, by position.
        self._asked: dict[str, Mapping[str, str]] = {}

    def get_task_interrupts(self, task_id: str) -> Mapping[str, str]:
        """Return the hashes of a task's interrupts, by position."""
        return self._asked.get(task_id, {})

    def add_keyed(self, asked: Iterable[PendingInterrupt]) -> None:
        """Record the interrupts that a task has created with keys."""
        self._keyed |= {one.interrupt.id: one for one in asked}

    def list_interrupts(self, names: Mapping[str, str]) -> list[PendingInterrupt]:
        """Return the pending interrupts of all tasks.

        ``names`` are the names of nodes by task id.
        """
        found = [
            asked_here
            for task in self._asking.values()
            for asked_here in self._list_of_task(task, names)
        ]
        return sorted(found, key=lambda one: (one.checkpoint_ns, one.task_path, one.task_id))

    def _list_of_task(
        self, task: InterruptedTask, names: Mapping[str, str]
    ) -> Iterator[PendingInterrupt]:
        yield from task.list_interrupts(self._find_ns(task, names))
        for one in task.interrupts:
            keyed = self._keyed.get(one.id)
            # The interrupts of a subgraph's task are also those of the calling task.
            if keyed is not None and keyed.task_id == task.task_id:
                yield keyed

    def _find_ns(self, task: InterruptedTask, names: Mapping[str, str]) -> str:
        above = task.config["configurable"]["checkpoint_ns"]
        for other in self._asking.values():
            if task.called_by(other):
                above = self._find_ns(other, names)
        own = f"{names.get(task.task_id, '')}{NS_END}{task.task_id}"
        return f"{above}{NS_SEP}{own}" if above else own

    def record_task_interrupts(self, asked_here: PendingInterrupt) -> Commit:
        """Return the commit that stores the hashes of a task's interrupts.

        ``asked_here`` is a new interrupt of the task. Its hash is included.
        """
        slot = str(asked_here.index) if asked_here.key is None else f"#{asked_here.key}"
        asked = {
            **self._asked.get(asked_here.task_id, {}),
            slot: ids.hash_json(asked_here.interrupt.value),
        }
        self._asked[asked_here.task_id] = asked
        writes = [TaskWrites(asked_here.task_id, asked_here.task_path, [(ASKED, asked)])]
        return Commit(self._asking[asked_here.task_id].config, writes=writes)

    def note_writes(self, config: RunnableConfig, task: TaskWrites) -> None:
        """Record that a task is interrupted, if its writes contain interrupts."""
        written = dict(task.writes)
        if INTERRUPT in written:
            self._asking[task.task_id] = InterruptedTask(
                config, task.task_id, task.task_path, written[INTERRUPT],
                len(written.get(RESUME, ())),
            )  # fmt: skip
        else:
            self._asking.pop(task.task_id, None)

    def check_answers(
        self, found: CheckpointTuple, writes: Sequence[PendingWrite]
    ) -> Sequence[PendingWrite]:
        """Return ``writes``, in which _CheckedAnswers replace the responses of each task.

        ``writes`` are the pending writes of the checkpoint ``found``. When LangGraph uses a
        response, _CheckedAnswers compares the interrupts. If the response was given for another
        interrupt, ``misplaced`` is set. A write that approves a breakpoint is left out, because
        LangGraph would use the approval as the response to the next interrupt.
        """
        pending = found.pending_writes or ()
        self._asked |= {task: value for task, name, value in pending if name == ASKED}
        kept: list[PendingWrite] = []
        for task, name, value in writes:
            if name != RESUME:
                kept.append((task, name, value))
            elif task == NULL_TASK_ID:
                self.passed.add(found.checkpoint["id"])
            else:
                given = _CheckedAnswers(value, self.get_task_interrupts(task), self._refuse)
                kept.append((task, name, given))
        return kept

    def _refuse(self, index: int) -> None:
        self.misplaced = InterruptChangedError(
            "The node asked something different after it was answered (interrupt "
            f"{index + 1} of its task). Code before interrupt() must be deterministic."
        )
        raise GraphInterrupt(())


class _CheckedAnswers(list[Any]):
    """The responses of a task by position, each with the interrupt for which it was given.

    LangGraph's ``interrupt`` looks up a response without passing the interrupt's payload. The
    payload is therefore read from the stack frame of ``interrupt`` (docs/explanation/decisions.md,
    section 8). If LangGraph starts to pass the payload, a test fails.
    """

    def __init__(
        self, answers: Sequence[Any], asked: Mapping[str, str], refuse: Callable[[int], None]
    ) -> None:
        super().__init__(answers)
        self._asked, self._refuse = asked, refuse

    def __getitem__(self, index: Any) -> Any:
        caller = sys._getframe(1)
        if isinstance(index, int) and caller.f_code is interrupt.__code__:
            asked = ids.hash_json(check_payload(render_json(caller.f_locals["value"])))
            if self._asked.get(str(index), asked) != asked:
                self._refuse(index)
        return super().__getitem__(index)
