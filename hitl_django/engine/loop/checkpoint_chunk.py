"""Data of the ``checkpoints`` stream mode, with descriptions of planned tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..constants import RETURN
from ..task.nodes import Write
from ..task.task import Task
from ..task.task_status import TaskStatus
from ..types import PregelTask, RunnableConfig
from .error_handlers import get_handled_failure
from .state import LoopState
from .stream_modes import describe_interrupt, group_writes


def build_config(thread_id: str | None, ns: str) -> RunnableConfig:
    """Return the config of a namespace of a thread."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


def describe_task(
    task: Task, status: TaskStatus | None, keys: Sequence[str] | str, live: bool, below: Any = None
) -> PregelTask:
    """Return the description of a planned task, as in a snapshot.

    With ``live``, interrupts that have a resume value are left out. ``keys`` are the channels of
    the state. ``below`` is the state of the task's subgraph.
    """
    if status is None:
        return PregelTask(task.id, task.name, task.path, state=below)
    interrupts = status.open if live else status.interrupts
    result = _result(status.output, keys) if status.finished else None
    return PregelTask(task.id, task.name, task.path, status.error, interrupts, below, result)


def _result(output: Sequence[Write], keys: Sequence[str] | str) -> Any:
    for name, value in output:
        if name == RETURN:
            return value
    if isinstance(keys, str):
        return group_writes([write for write in output if write[0] == keys]).get(keys)
    return group_writes([write for write in output if write[0] in keys])


def build_checkpoint_chunk(state: LoopState) -> dict[str, Any]:
    """Return the data of the ``checkpoints`` stream mode for the newest checkpoint."""
    planned = [task for task in state.tasks if get_handled_failure(task) is None]
    tasks = []
    for task in planned:
        shown = describe_task(task, state.statuses.get(task.id), state.graph.stream_keys, False)
        data: dict[str, Any] = {"id": shown.id, "name": shown.name}
        if shown.error:
            data["error"] = shown.error
        else:
            if shown.result:
                data["result"] = shown.result
            data["interrupts"] = tuple(
                describe_interrupt(interrupt) for interrupt in shown.interrupts
            )
        called = state.graph.subgraph_of(task.name)
        data["state"] = None
        if called is not None:
            data["state"] = build_config(state.run.thread_id, called.nested_ns(task.ns))
        tasks.append(data)
    # A recorded run builds the chunks before the checkpoint is stored.
    parent_id = state.commits.saved_id if state.records else state.commits.parent_id
    return {
        "config": _build_full_config(state, state.origin.checkpoint_id),
        "parent_config": _build_full_config(state, parent_id) if parent_id else None,
        "values": state.read_channels(state.graph.stream_keys),
        "metadata": dict(state.metadata),
        "next": [task.name for task in planned],
        "tasks": tasks,
    }


def _build_full_config(state: LoopState, checkpoint_id: str | None) -> RunnableConfig:
    config = state.commits.config_for(checkpoint_id)
    parents = state.metadata.get("parents")
    if parents:
        config["configurable"]["checkpoint_map"] = {**parents, state.job.ns: checkpoint_id}
    return config
