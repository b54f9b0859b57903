"""State snapshots of a thread, built from stored checkpoints."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from ..constants import INPUT, NS_SEP, NULL_TASK_ID, RESUME
from ..loop.apply import InputWrites, apply_writes, count_version
from ..loop.channel_state import ChannelState, restore_channels
from ..loop.checkpoint_chunk import build_config, describe_task
from ..loop.effects import ListCheckpoints, LoadCheckpoint, Query
from ..loop.error_handlers import HandlerTask, restore_handlers
from ..loop.plan import plan_tasks, read_state
from ..loop.renamed_checkpoint import rename_checkpoint
from ..savers.checkpoint import CheckpointTuple
from ..task.graph_spec import GraphSpec
from ..task.task import StepOrigin, Task
from ..task.task_status import TaskStatus, read_task_statuses
from ..types import RunnableConfig, StateSnapshot
from .run_options import strip_task_ids
from .stored_graph import ReadableGraph, StoredGraph
from .subgraphs import split_path


def complete_config(config: RunnableConfig) -> RunnableConfig:
    """Return a copy of the config with the thread id as text and with a namespace.

    Raises:
        ValueError: the config contains no thread id.
    """
    configurable = config.get("configurable") or {}
    if configurable.get("thread_id") is None:
        raise ValueError(
            'The config must contain a thread id: {"configurable": {"thread_id": ...}}.'
        )
    return {
        **config,
        "configurable": {
            **configurable,
            "thread_id": str(configurable["thread_id"]),
            "checkpoint_ns": configurable.get("checkpoint_ns") or "",
        },
    }


def load_state(graph: ReadableGraph | None, config: RunnableConfig, subgraphs: bool) -> Query:
    """Return the state of the checkpoint that the config selects, by default the current state.

    If ``graph`` is None, the graph structure is derived from the stored checkpoint.
    """
    live = "checkpoint_id" not in config["configurable"]
    saved = yield LoadCheckpoint(config)
    if graph is None:
        if saved is None:
            raise build_not_found(config)
        graph = StoredGraph(saved.checkpoint)
    return (yield from build_snapshot(graph, config, saved, live=live, recurse=subgraphs))


def build_not_found(config: RunnableConfig) -> ValueError:
    """Return the error for a config whose namespace belongs to no known subgraph."""
    return ValueError(
        f"Subgraph {NS_SEP.join(split_path(config['configurable']['checkpoint_ns']))} not found"
    )


def load_history(
    graph: ReadableGraph | None,
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Query:
    """Return the stored states, newest first.

    The arguments are those of ``get_state_history``.
    """
    found = yield ListCheckpoints(config, filter, before, limit)
    snapshots = []
    for saved in found:
        shown = StoredGraph(saved.checkpoint) if graph is None else graph
        snapshots.append(
            (yield from build_snapshot(shown, config, saved, live=False, recurse=False))
        )
    return snapshots


def build_snapshot(
    graph: ReadableGraph,
    config: RunnableConfig,
    saved: CheckpointTuple | None,
    *,
    live: bool,
    recurse: bool,
) -> Generator[Any, Any, StateSnapshot]:
    """Return a snapshot of a stored checkpoint and its pending writes.

    With ``live``, the writes of finished tasks are applied. With ``recurse``, the tasks include the
    state of their subgraphs.
    """
    saved = rename_checkpoint(graph.spec, saved)
    if saved is None:
        configurable = dict(config["configurable"])
        if not configurable["checkpoint_ns"]:
            del configurable["checkpoint_ns"]
        return StateSnapshot({}, (), {"configurable": configurable}, None, None, None, (), ())
    spec = graph.spec
    current = restore_channels(spec, saved.checkpoint)
    pending = saved.pending_writes or []
    null_writes = [(n, v) for task, n, v in pending if task == NULL_TASK_ID and n != RESUME]
    if null_writes:
        apply_writes(spec, current, [InputWrites(INPUT, null_writes)], count_version)
    # All nodes are checked, not only those triggered by an update, so that the tasks are listed in
    # the definition order of their nodes.
    current.updated = None
    step = saved.metadata.get("step", -1) + 1
    ns = saved.config["configurable"].get("checkpoint_ns", "")
    origin = StepOrigin(spec, current.values, saved.checkpoint["id"], ns, step, step + 2)
    tasks = plan_tasks(spec, current, origin)
    statuses = read_task_statuses(pending)
    handlers = restore_handlers(spec, tasks, statuses)
    if live and (done := _set_stored_writes(tasks, handlers, statuses)):
        after = _apply_finished(spec, current, done)
        if after is None:
            # The step failed, so the writes of its tasks have not been applied.
            for task in done:
                task.writes = None
        else:
            current = after
    shown = []
    for task in (*tasks, *(h for h in handlers if _has_interrupts(statuses.get(h.id), live))):
        below = yield from _read_subgraph(graph, saved, task, recurse, task.id in statuses)
        shown.append(describe_task(task, statuses.get(task.id), graph.stream_keys, live, below))
    keys = graph.stream_keys
    return StateSnapshot(
        values=(
            read_state(spec, current.values, (keys,)).get(keys)
            if isinstance(keys, str)
            else read_state(spec, current.values, keys)
        ),
        next=tuple(task.name for task in tasks if task.writes is None),
        config=_add_checkpoint_map(saved.config, saved),
        metadata=dict(saved.metadata),
        created_at=saved.checkpoint["ts"],
        parent_config=saved.parent_config and _add_checkpoint_map(saved.parent_config, saved),
        tasks=tuple(shown),
        interrupts=tuple(interrupt for task in shown for interrupt in task.interrupts),
    )


def _set_stored_writes(
    tasks: Sequence[Task], handlers: Sequence[HandlerTask], statuses: Mapping[str, TaskStatus]
) -> list[Task]:
    """Assign the stored writes of finished tasks to ``task.writes``, and return these tasks.

    A failed task also counts as finished if an error handler has handled its failure. Such a task
    gets an empty ``task.writes``.
    """
    done = [t for t in (*tasks, *handlers) if t.id in statuses and statuses[t.id].finished]
    for task in done:
        task.writes = statuses[task.id].output
    handled = [handler.failed for handler in handlers if handler.writes]
    for task in handled:
        task.writes = ()
    return [*done, *handled]


def _add_checkpoint_map(config: RunnableConfig, saved: CheckpointTuple) -> RunnableConfig:
    """Return the config of a subgraph's checkpoint, with the checkpoint ids of calling graphs."""
    parents = saved.metadata.get("parents")
    if not parents:
        return config
    configurable = config["configurable"]
    own = {configurable["checkpoint_ns"]: configurable["checkpoint_id"]}
    return {"configurable": {**configurable, "checkpoint_map": {**parents, **own}}}


def _read_subgraph(
    graph: ReadableGraph, saved: CheckpointTuple, task: Task, recurse: bool, has_run: bool
) -> Generator[Any, Any, Any]:
    """Return the config of the subgraph that a task calls, or None if no subgraph is found.

    With ``recurse``, return the state of the subgraph instead. ``has_run`` is true if the task has
    stored writes.
    """
    called = graph.subgraph_of(task.name)
    thread_id = saved.config["configurable"]["thread_id"]
    if called is not None:
        config = build_config(thread_id, called.nested_ns(task.ns))
        return (yield from load_state(called, config, True)) if recurse else config
    if not recurse or not has_run:
        return None
    for ns in dict.fromkeys((task.ns, strip_task_ids(task.ns))):
        config = build_config(thread_id, ns)
        found: CheckpointTuple | None = yield LoadCheckpoint(config)
        if found is not None:
            stored = StoredGraph(found.checkpoint)
            return (yield from build_snapshot(stored, config, found, live=True, recurse=True))
    return None


def _apply_finished(
    spec: GraphSpec, current: ChannelState, done: Sequence[Task]
) -> ChannelState | None:
    """Return the state with the writes of finished tasks, or None if the writes can't be applied.

    If the writes can't be applied, the run fails when it resumes. The snapshot then shows the state
    before the writes.
    """
    after = current.copy()
    try:
        apply_writes(spec, after, done, _same_clock)
    except Exception:
        return None
    return after


def _same_clock(current: Any, channel: None) -> Any:
    return current


def _has_interrupts(status: TaskStatus | None, live: bool) -> bool:
    return status is not None and bool(status.open if live else status.interrupts)
