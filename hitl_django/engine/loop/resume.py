"""Commands given as input: resume values, an update, and a goto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..constants import BRANCH_TO, NULL_TASK_ID, START, TASKS
from ..errors import (
    EmptyInputError,
    InvalidUpdateError,
    NoSaverError,
    NothingPendingError,
    ThreadNotFound,
)
from ..savers.checkpoint import CheckpointTuple, TaskWrites
from ..state.messages import add_message_ids
from ..task.nodes import Write, build_goto_writes
from ..task.task_status import TaskStatus, is_resume_map, plan_resume
from ..types import Command, Send
from .compiled_graph import CompiledGraph
from .plan import plan_tasks
from .state import LoopState


def refuse_command(state: LoopState, command: Command[Any], saved: CheckpointTuple | None) -> None:
    """Raise an error, before anything is stored, if the Command can't be applied."""
    if command.graph == Command.PARENT:
        raise InvalidUpdateError("There is no parent graph")
    if command.resume is None:
        if not command.update and not command.goto:
            raise EmptyInputError(
                "Received empty Command input. To answer with None, use Command(resume={id: None})."
            )
        return
    if state.saver is None:
        raise NoSaverError("Cannot use Command(resume=...) without checkpointer")
    if saved is None:
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint to resume.",
            thread_id=state.run.thread_id,
        )


def take_command(
    state: LoopState,
    command: Command[Any],
    stored: Sequence[Write],
    superseded: bool,
    below: Sequence[str] | None,
) -> list[Write]:
    """Add the Command's resume values to ``state.run``, and return the writes to apply first.

    The result consists of ``stored``, the stored writes that belong to no task, followed by the
    writes of the Command. If ``superseded`` is true, the run starts from a checkpoint that isn't
    the newest, and all interrupts of its tasks are pending again. With ``below``, the resume values
    can only resolve the interrupts with these ids.
    """
    if command.resume is not None:
        _take_answers(state, command.resume, superseded, below)
    added = list_command_writes(state.graph, command)
    writes = [*stored, *added]
    if added:
        state.commits.unsaved.append(TaskWrites(NULL_TASK_ID, "", writes))
    return writes


def _take_answers(
    state: LoopState, resume: Any, superseded: bool, below: Sequence[str] | None
) -> None:
    # The tasks of a superseded checkpoint run again, so all their interrupts are pending again.
    known_ids = list_interrupt_ids(state.statuses) if superseded else list_open_ids(state)
    if below is not None:
        known_ids = [name for name in known_ids if name in below]
    if known_ids or is_resume_map(resume):
        state.run.answers = plan_resume(resume, known_ids)
    elif superseded:
        state.run.wildcard = [resume]
    elif not plan_tasks(state.spec, state.channel_state, state.origin):
        # A static breakpoint has no interrupt, so any resume value resumes the run.
        raise NothingPendingError(
            f"Thread {state.run.thread_id!r} has no pending interrupt and no next node. "
            "Nothing was stored.",
            thread_id=state.run.thread_id,
        )


def list_command_writes(graph: CompiledGraph, command: Command[Any]) -> list[Write]:
    """Return the writes of a Command's ``goto`` and ``update``.

    Raises:
        InvalidUpdateError: the graph has no node or state key of a given name.
    """
    spec = graph.spec
    targets = command.goto if isinstance(command.goto, (list, tuple)) else [command.goto]
    for target in targets:
        if not isinstance(target, (str, Send)):
            raise TypeError(f"In Command.goto, expected Send/str, got {type(target).__name__}")
    writes = build_goto_writes(targets, START)
    writes += add_message_ids(graph.update_writes(command.update), spec.messages)
    known = spec.channels
    for name, value in writes:
        node = value.node if name == TASKS else name.removeprefix(BRANCH_TO)
        if name.startswith(BRANCH_TO) or name == TASKS:
            if node not in spec.nodes:
                nodes = ", ".join(n for n in spec.nodes if n != START)
                raise InvalidUpdateError(f"goto: unknown node '{node}'. Nodes: {nodes}.")
        elif name not in known:
            keys = ", ".join(graph.state_keys)
            raise InvalidUpdateError(f"update: unknown key '{name}'. Keys: {keys}.")
    return writes


def list_open_ids(state: LoopState) -> list[str]:
    return [interrupt.id for status in state.statuses.values() for interrupt in status.open]


def list_interrupt_ids(statuses: Mapping[str, TaskStatus]) -> list[str]:
    """Return the ids of all interrupts in the stored writes of tasks."""
    return [interrupt.id for status in statuses.values() for interrupt in status.interrupts]
