"""The state of a thread as people and programs look at it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..constants import INPUT, NULL_TASK_ID, RESUME, RETURN
from ..loop.apply import InputWrites, apply, count_version
from ..loop.effects import List, Load, Query
from ..loop.error_handlers import HandlerTask, failure_of, restored
from ..loop.graph_spec import Blueprint, State
from ..loop.plan import Origin, Task, plan, read_state
from ..loop.stream_modes import as_dict, folded_writes
from ..loop.task_status import TaskStatus, read_task_statuses
from ..savers.checkpoint import CheckpointTuple
from ..task.nodes import Write
from ..types import PregelTask, RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from ..loop.loop import Loop
    from .pregel import Pregel


def place_of(config: RunnableConfig) -> RunnableConfig:
    """Returns a config that names its thread and namespace, as savers want it."""
    place = config.get("configurable") or {}
    if place.get("thread_id") is None:
        raise ValueError('The config has to name the thread: {"configurable": {"thread_id": ...}}.')
    return {
        **config,
        "configurable": {
            **place,
            "thread_id": str(place["thread_id"]),
            "checkpoint_ns": place.get("checkpoint_ns") or "",
        },
    }


def state(graph: Pregel, config: RunnableConfig, subgraphs: bool) -> Query:
    """Returns the addressed state, or the live one."""
    live = "checkpoint_id" not in config["configurable"]
    saved = yield Load(config)
    return (yield from snapshot(graph, config, saved, live=live, recurse=subgraphs))


def history(
    graph: Pregel,
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Query:
    """Returns the recorded states, newest first."""
    found = yield List(config, filter, before, limit)
    snapshots = []
    for saved in found:
        snapshots.append((yield from snapshot(graph, config, saved, live=False, recurse=False)))
    return snapshots


def snapshot(
    graph: Pregel,
    config: RunnableConfig,
    saved: CheckpointTuple | None,
    *,
    live: bool,
    recurse: bool,
) -> Generator[Any, Any, StateSnapshot]:
    """Works out a snapshot from a stored checkpoint and the writes on top of it."""
    if saved is None:
        place = dict(config["configurable"])
        if not place["checkpoint_ns"]:
            del place["checkpoint_ns"]
        return StateSnapshot({}, (), {"configurable": place}, None, None, None, (), ())
    blueprint = graph.blueprint
    current = blueprint.state_from(saved.checkpoint)
    pending = saved.pending_writes or []
    null_writes = [(n, v) for task, n, v in pending if task == NULL_TASK_ID and n != RESUME]
    if null_writes:
        apply(blueprint, current, [InputWrites(INPUT, null_writes)], count_version)
    # Looking at every node, not only at those an update may have triggered, keeps the order in
    # which the nodes were added.
    current.updated = None
    step = saved.metadata.get("step", -1) + 1
    ns = saved.config["configurable"].get("checkpoint_ns", "")
    origin = Origin(blueprint, current.values, saved.checkpoint["id"], ns, step, step + 2)
    tasks = plan(blueprint, current, origin)
    statuses = read_task_statuses(pending)
    handlers = restored(blueprint, tasks, statuses)
    if live and (done := _finished(tasks, handlers, statuses)):
        after = _with_writes(blueprint, current, done)
        if after is None:
            # The step has failed and is still to be taken.
            for task in done:
                task.writes = None
        else:
            current = after
    shown = []
    for task in (*tasks, *(h for h in handlers if _asks(statuses.get(h.id), live))):
        below = yield from _below(graph, saved, task, recurse)
        shown.append(_shown(task, statuses.get(task.id), graph.stream_keys, live, below))
    keys = graph.stream_keys
    return StateSnapshot(
        values=(
            read_state(blueprint, current.values, (keys,)).get(keys)
            if isinstance(keys, str)
            else read_state(blueprint, current.values, keys)
        ),
        next=tuple(task.name for task in tasks if task.writes is None),
        config=_mapped(saved.config, saved),
        metadata=dict(saved.metadata),
        created_at=saved.checkpoint["ts"],
        parent_config=saved.parent_config and _mapped(saved.parent_config, saved),
        tasks=tuple(shown),
        interrupts=tuple(interrupt for task in shown for interrupt in task.interrupts),
    )


def _finished(
    tasks: Sequence[Task], handlers: Sequence[HandlerTask], statuses: Mapping[str, TaskStatus]
) -> list[Task]:
    """Gives tasks that have finished their stored writes, and returns them.

    A task whose failure was handled has finished, too, without any.
    """
    done = [t for t in (*tasks, *handlers) if t.id in statuses and statuses[t.id].finished]
    for task in done:
        task.writes = statuses[task.id].output
    handled = [handler.failed for handler in handlers if handler.writes]
    for task in handled:
        task.writes = ()
    return [*done, *handled]


def _mapped(config: RunnableConfig, saved: CheckpointTuple) -> RunnableConfig:
    """Returns the coordinates of a subgraph's checkpoint with those of the graphs that call it."""
    parents = saved.metadata.get("parents")
    if not parents:
        return config
    place = config["configurable"]
    own = {place["checkpoint_ns"]: place["checkpoint_id"]}
    return {"configurable": {**place, "checkpoint_map": {**parents, **own}}}


def _below(
    graph: Pregel, saved: CheckpointTuple, task: Task, recurse: bool
) -> Generator[Any, Any, Any]:
    """Returns what a snapshot shows of the graph that a task calls: where it is, or its state."""
    called = graph.subgraph_of(task.name)
    if called is None:
        return None
    ns = called.nested_ns(task.ns)
    config = _coordinates(saved.config["configurable"]["thread_id"], ns)
    return (yield from state(called, config, True)) if recurse else config


def _coordinates(thread_id: str | None, ns: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


def _with_writes(blueprint: Blueprint, current: State, done: Sequence[Task]) -> State | None:
    """Returns the state with what finished tasks wrote, or None where that can't be applied.

    Such writes have failed the run; whoever looks at it needs to see how far it came.
    """
    after = current.copy()
    try:
        apply(blueprint, after, done, _same_clock)
    except Exception:
        return None
    return after


def _same_clock(current: Any, channel: None) -> Any:
    """Looking on moves no version."""
    return current


def _shown(
    task: Task, status: TaskStatus | None, keys: Sequence[str] | str, live: bool, below: Any = None
) -> PregelTask:
    if status is None:
        return PregelTask(task.id, task.name, task.path, state=below)
    asked = status.open if live else status.interrupts
    result = _result(status.output, keys) if status.finished else None
    return PregelTask(task.id, task.name, task.path, status.error, asked, below, result)


def _asks(status: TaskStatus | None, live: bool) -> bool:
    return status is not None and bool(status.open if live else status.interrupts)


def _result(output: Sequence[Write], keys: Sequence[str] | str) -> Any:
    for name, value in output:
        if name == RETURN:
            return value
    if isinstance(keys, str):
        return folded_writes([write for write in output if write[0] == keys]).get(keys)
    return folded_writes([write for write in output if write[0] in keys])


def checkpoint_chunk(graph: Pregel, loop: Loop) -> dict[str, Any]:
    """Returns what the ``checkpoints`` stream mode tells of the checkpoint a loop stands at."""
    planned = [task for task in loop.tasks if failure_of(task) is None]
    tasks = []
    for task in planned:
        shown = _shown(task, loop.statuses.get(task.id), graph.stream_keys, False)
        data: dict[str, Any] = {"id": shown.id, "name": shown.name}
        if shown.error:
            data["error"] = shown.error
        else:
            if shown.result:
                data["result"] = shown.result
            data["interrupts"] = tuple(as_dict(interrupt) for interrupt in shown.interrupts)
        called = graph.subgraph_of(task.name)
        data["state"] = None
        if called is not None:
            data["state"] = _coordinates(loop.run.thread_id, called.nested_ns(task.ns))
        tasks.append(data)
    # What is stored with the checkpoint is told before it is the newest one that is.
    parent_id = loop.ledger.saved_id if loop.records else loop.ledger.parent_id
    return {
        "config": _placed(loop, loop.checkpoint_id),
        "parent_config": _placed(loop, parent_id) if parent_id else None,
        "values": loop.read(graph.stream_keys),
        "metadata": dict(loop.metadata),
        "next": [task.name for task in planned],
        "tasks": tasks,
    }


def _placed(loop: Loop, checkpoint_id: str | None) -> RunnableConfig:
    config = loop.ledger.config_for(checkpoint_id)
    parents = loop.metadata.get("parents")
    if parents:
        config["configurable"]["checkpoint_map"] = {**parents, loop.job.ns: checkpoint_id}
    return config
