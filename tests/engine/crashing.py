"""A saver that crashes, and responses stored in the same way as by a decision."""

from __future__ import annotations

from typing import Any

from hitl_django.engine.constants import RESUME
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.checkpoint import Commit, Outcome, PendingWrite
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.task_status import read_task_statuses, record_answer


class Crash(BaseException):
    """The process has crashed."""


class Frail(InMemorySaver):
    """In-memory saver that crashes before or after storing its n-th commit."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.crash_at: int | None = None
        self.crash_after = False
        self.outcomes: list[Outcome | None] = []

    def commit(self, commit: Commit) -> None:
        self.count += 1
        if self.count == self.crash_at and not self.crash_after:
            raise Crash
        super().commit(commit)
        if not commit.config["configurable"]["checkpoint_ns"]:
            self.outcomes.append(commit.outcome)
        if self.count == self.crash_at:
            raise Crash


def store_answer(graph: Pregel, outcome: Outcome, value: Any, number: int = 0) -> None:
    """Store a response for an interrupted task like a decision does, without running anything."""
    interrupt = outcome.pending_interrupts[number]
    place = {
        "configurable": {
            "thread_id": "thread",
            "checkpoint_ns": interrupt.checkpoint_ns,
            "checkpoint_id": interrupt.checkpoint_id,
        }
    }
    saver: Any = graph.checkpointer
    pending: list[PendingWrite] = saver.get_tuple(place).pending_writes
    status = read_task_statuses(pending).get(interrupt.task_id)
    answers = record_answer(status.answers if status else [], interrupt.index, value)
    saver.put_writes(place, [(RESUME, answers)], interrupt.task_id, interrupt.task_path)
