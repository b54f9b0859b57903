"""The pending writes of a LangGraph checkpoint, and the ids of their interrupts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hitl_django.engine.constants import (
    BRANCH_TO,
    ERROR,
    ERROR_SOURCE_NODE,
    INTERRUPT,
    NO_WRITES,
    NS_END,
    NS_SEP,
    RESUME,
    SCHEDULED,
    TASKS,
)
from hitl_django.engine.ids import make_interrupt_id
from hitl_django.engine.savers.checkpoint import CheckpointTuple, PendingWrite, TaskWrites

#: Namespace and id of a checkpoint.
Place = tuple[str, str]
#: Kinds of writes that a task can make several times.
REPEATABLE = frozenset((INTERRUPT, ERROR, ERROR_SOURCE_NODE, SCHEDULED, NO_WRITES))


@dataclass(frozen=True, slots=True)
class PendingStep:
    """The writes of the tasks in an unfinished super-step.

    ``nodes`` are the names of the nodes to which the tasks may belong.
    """

    writes: list[TaskWrites]
    nodes: frozenset[str]

    @classmethod
    def read(cls, found: CheckpointTuple, paths: Mapping[str, str]) -> PendingStep:
        """Read the pending writes of the checkpoint ``found``.

        ``paths`` are the paths of tasks by task id.
        """
        tasks: dict[str, TaskWrites] = {}
        for task_id, name, value in found.pending_writes or ():
            task = tasks.setdefault(task_id, TaskWrites(task_id, paths.get(task_id, ""), []))
            task.writes = [*task.writes, (name, value)]
        return cls(list(tasks.values()), frozenset(_find_due(found.checkpoint)))


def is_new(write: PendingWrite, before: Sequence[PendingWrite]) -> bool:
    """Return whether a write adds information to ``before``, a checkpoint's earlier writes."""
    task_id, name, value = write
    own = [each for task, named, each in before if (task, named) == (task_id, name)]
    if name in REPEATABLE:
        return not own
    if name == RESUME and isinstance(value, list):
        return all(answers[: len(value)] != value for answers in own)
    return value not in own


def number_interrupts(steps: Mapping[Place, PendingStep]) -> None:
    """Give unique ids to the second and later interrupts of each task.

    ``steps`` are the unfinished super-steps, by namespace and id of their checkpoint.

    Before LangGraph 1.2, all interrupts of a task had the same id. Without unique ids, a response
    to the second interrupt would resolve the first. The tasks of calling graphs contain copies of
    an interrupt. These copies get the same id as the interrupt.
    """
    renamed: dict[str, str] = {}
    for (ns, _), step in steps.items():
        for task in step.writes:
            renamed.update(_rename_own(task, ns, step.nodes))
    if not renamed:
        return
    for step in steps.values():
        for task in step.writes:
            task.writes = [
                (name, _rename(value, renamed) if name == INTERRUPT else value)
                for name, value in task.writes
            ]


def _rename_own(task: TaskWrites, ns: str, nodes: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the old and the new id of the task's interrupt, if the old id isn't unique.

    ``nodes`` are the names of the nodes to which the task may belong.
    """
    writes = dict(task.writes)
    asked, answers = writes.get(INTERRUPT, ()), writes.get(RESUME, ())
    if len(asked) != 1 or not isinstance(answers, list):
        return
    above = f"{ns}{NS_SEP}" if ns else ""
    for node in nodes:
        task_ns = f"{above}{node}{NS_END}{task.task_id}"
        if asked[0].id == make_interrupt_id(task_ns, 0):
            yield asked[0].id, make_interrupt_id(task_ns, len(answers))


def _rename(asked: Any, renamed: Mapping[str, str]) -> Any:
    return tuple(replace(one, id=renamed.get(one.id, one.id)) for one in asked)


def _find_due(checkpoint: Any) -> Iterator[str]:
    """Yield the names of the nodes that run next after a checkpoint."""
    for name in checkpoint["channel_values"]:
        if name.startswith(BRANCH_TO):
            yield name.removeprefix(BRANCH_TO)
    for sent in checkpoint["channel_values"].get(TASKS, ()):
        yield sent.node
