"""The state of a thread as people and programs look at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .apply import InputWrites, apply, count_version
from .checkpoint import CheckpointTuple
from .constants import INPUT, NULL_TASK_ID, RESUME, RETURN
from .errors import NoSaverError
from .nodes import Write
from .plan import Origin, Task, plan, read_state
from .slots import TaskStatus, read_task_statuses
from .stream import as_dict, folded_writes
from .types import PregelTask, RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from .loop import Loop
    from .pregel import Pregel


def _saver(graph: Pregel) -> Any:
    if graph.saver is None:
        raise NoSaverError("No checkpointer set")
    return graph.saver


def _place(config: RunnableConfig) -> RunnableConfig:
    place = config.get("configurable") or {}
    if "thread_id" not in place:
        raise ValueError('The config has to name the thread: {"configurable": {"thread_id": …}}.')
    return {
        "configurable": {**place, "thread_id": str(place["thread_id"]),
                         "checkpoint_ns": place.get("checkpoint_ns") or ""}
    }  # fmt: skip


def state(graph: Pregel, config: RunnableConfig, subgraphs: bool) -> StateSnapshot:
    """Returns the addressed state, or the live one."""
    place = _place(config)
    live = "checkpoint_id" not in place["configurable"]
    return snapshot(graph, place, _saver(graph).get_tuple(place), live=live)


async def astate(graph: Pregel, config: RunnableConfig, subgraphs: bool) -> StateSnapshot:
    """Like state."""
    place = _place(config)
    live = "checkpoint_id" not in place["configurable"]
    return snapshot(graph, place, await _saver(graph).aget_tuple(place), live=live)


def history(
    graph: Pregel,
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[StateSnapshot]:
    """Yields recorded states, newest first."""
    place = _place(config)
    for saved in _saver(graph).list(place, filter=filter, before=before, limit=limit):
        yield snapshot(graph, place, saved, live=False)


async def ahistory(
    graph: Pregel,
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> AsyncIterator[StateSnapshot]:
    """Like history."""
    place = _place(config)
    async for saved in _saver(graph).alist(place, filter=filter, before=before, limit=limit):
        yield snapshot(graph, place, saved, live=False)


def snapshot(
    graph: Pregel, config: RunnableConfig, saved: CheckpointTuple | None, *, live: bool
) -> StateSnapshot:
    """Works out a snapshot from a stored checkpoint and the writes on top of it."""
    if saved is None:
        return StateSnapshot({}, (), config, None, None, None, (), ())
    blueprint = graph.blueprint
    current = blueprint.state_from(saved.checkpoint)
    pending = saved.pending_writes or []
    null_writes = [(n, v) for task, n, v in pending if task == NULL_TASK_ID and n != RESUME]
    if null_writes:
        before = current.updated
        apply(blueprint, current, [InputWrites(INPUT, null_writes)], count_version)
        current.updated = None if before is None else before | (current.updated or set())
    step = saved.metadata.get("step", -1) + 1
    ns = saved.config["configurable"].get("checkpoint_ns", "")
    origin = Origin(blueprint, current.values, saved.checkpoint["id"], ns, step, step + 2)
    tasks = plan(blueprint, current, origin)
    statuses = read_task_statuses(pending)
    if live:
        done = [task for task in tasks if task.id in statuses and statuses[task.id].finished]
        for task in done:
            task.writes = statuses[task.id].output
        if done:
            apply(blueprint, current, done, _same_clock)
    shown = tuple(_shown(task, statuses.get(task.id), graph.stream_keys, live) for task in tasks)
    keys = graph.stream_keys
    return StateSnapshot(
        values=(
            read_state(blueprint, current.values, (keys,)).get(keys)
            if isinstance(keys, str)
            else read_state(blueprint, current.values, keys)
        ),
        next=tuple(task.name for task in tasks if task.writes is None),
        config=saved.config,
        metadata=dict(saved.metadata),
        created_at=saved.checkpoint["ts"],
        parent_config=saved.parent_config,
        tasks=shown,
        interrupts=tuple(interrupt for task in shown for interrupt in task.interrupts),
    )


def _same_clock(current: Any, channel: None) -> Any:
    """Looking on moves no version."""
    return current


def _shown(
    task: Task, status: TaskStatus | None, keys: Sequence[str] | str, live: bool
) -> PregelTask:
    if status is None:
        return PregelTask(task.id, task.name, task.path)
    asked = status.open if live else status.interrupts
    result = _result(status.output, keys) if status.finished else None
    return PregelTask(task.id, task.name, task.path, status.error, asked, None, result)


def _result(output: Sequence[Write], keys: Sequence[str] | str) -> Any:
    for name, value in output:
        if name == RETURN:
            return value
    if isinstance(keys, str):
        return folded_writes([write for write in output if write[0] == keys]).get(keys)
    return folded_writes([write for write in output if write[0] in keys])


def checkpoint_chunk(graph: Pregel, loop: Loop) -> dict[str, Any]:
    """Returns what the ``checkpoints`` stream mode tells of the checkpoint a loop stands at."""
    tasks = []
    for task in loop.tasks:
        shown = _shown(task, loop.statuses.get(task.id), graph.stream_keys, False)
        data: dict[str, Any] = {"id": shown.id, "name": shown.name}
        if shown.error:
            data["error"] = shown.error
        else:
            if shown.result:
                data["result"] = shown.result
            data["interrupts"] = tuple(as_dict(interrupt) for interrupt in shown.interrupts)
        data["state"] = shown.state
        tasks.append(data)
    return {
        "config": loop.config_for(loop.checkpoint_id),
        "parent_config": loop.config_for(loop.parent_id) if loop.parent_id else None,
        "values": loop.read(graph.stream_keys),
        "metadata": {**loop.user_metadata(), **loop.metadata},
        "next": [task.name for task in loop.tasks],
        "tasks": tasks,
    }
