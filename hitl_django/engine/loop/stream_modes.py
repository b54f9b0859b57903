"""Data of the stream chunks, by stream mode.

A chunk is ``(namespace, mode, data)``. The namespace is a tuple with one text for each level of
subgraphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ..constants import RETURN
from ..task.nodes import Write
from ..task.task import Task
from ..types import Interrupt


def build_update(
    task: Task, writes: Sequence[Write], keys: Sequence[str] | str, cached: bool
) -> dict[str, Any]:
    """Return the ``updates`` chunk of a finished task: the task's writes by node name.

    The writes to the channels ``keys`` are included, or the return value of a @task function.
    ``cached`` is true if the task's result was in the cache.
    """
    returned = [value for name, value in writes if name == RETURN]
    if returned:
        parts = returned[:1]
    elif isinstance(keys, str):
        parts = [value for name, value in writes if name == keys]
    elif wanted := [write for write in writes if write[0] in keys]:
        update = dict(wanted)
        is_repeated = len(update) < len(wanted)
        parts = [{name: value} for name, value in wanted] if is_repeated else [update]
    else:
        parts = []
    chunk: dict[str, Any] = {task.name: parts[0] if len(parts) == 1 else parts or None}
    if cached:
        chunk["__metadata__"] = {"cached": True}
    return chunk


def describe_start(
    task: Task, metadata: Mapping[str, Any], tags: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the ``tasks`` chunk of a task that is about to run."""
    chunk = {
        "id": task.id,
        "name": task.name,
        "input": task.input,
        "triggers": task.triggers,
    }
    extra = {**metadata, **task.node.metadata}
    if tags or task.node.tags:
        extra["tags"] = [*tags, *task.node.tags]
    if extra:
        chunk["metadata"] = extra
    return chunk


def describe_end(task: Task, keys: Sequence[str] | str) -> dict[str, Any]:
    """Return the ``tasks`` chunk of an ended task, with its writes to the channels ``keys``."""
    keys = (keys,) if isinstance(keys, str) else keys
    return {
        "id": task.id,
        "name": task.name,
        "error": task.error,
        "result": group_writes(
            [write for write in task.writes or () if write[0] in keys or write[0] == RETURN]
        ),
        "interrupts": [
            describe_interrupt(payload.interrupt) for payload in task.pending_interrupts
        ],
    }


def group_writes(writes: Iterable[Write]) -> dict[str, Any]:
    """Return writes as a dict by channel.

    Several writes to a channel become ``{"$writes": [...]}``.
    """
    result: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, value in writes:
        counts[name] = counts.get(name, 0) + 1
        if counts[name] == 1:
            result[name] = value
        elif counts[name] == 2:
            result[name] = {"$writes": [result[name], value]}
        else:
            result[name]["$writes"].append(value)
    return result


def describe_interrupt(interrupt: Interrupt) -> dict[str, Any]:
    return asdict(interrupt)


def wrap_for_debug(mode: str, step: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a ``tasks`` or ``checkpoints`` chunk in the form of the mode ``debug``.

    ``step`` is the number of the super-step.
    """
    kind = "checkpoint" if mode == "checkpoints" else "task_result" if "result" in data else "task"
    return {
        "step": step - 1 if mode == "checkpoints" else step,
        "timestamp": datetime.now(UTC).isoformat(),
        "type": kind,
        "payload": data,
    }
