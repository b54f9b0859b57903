"""Updates of a thread's state, applied as writes of a node or of the input."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from typing import Any

from .. import ids
from ..constants import COPY, END, INPUT, INTERRUPT, NO_WRITES, NULL_TASK_ID, RESUME, START
from ..errors import InvalidUpdateError, PendingInterruptsError
from ..loop.apply import InputWrites, NextVersion, Writer, apply_writes
from ..loop.channel_state import ChannelState, restore_channels
from ..loop.commit_builder import CommitBuilder
from ..loop.compiled_graph import CompiledGraph
from ..loop.effects import LoadCheckpoint, Query, Save
from ..loop.error_handlers import restore_handlers
from ..loop.migrated_state import replace_values
from ..loop.orphaned_triggers import drop_orphaned_triggers
from ..loop.plan import plan_tasks
from ..loop.renamed_checkpoint import rename_checkpoint
from ..loop.resume import list_command_writes
from ..savers.checkpoint import CheckpointTuple, TaskWrites, select_metadata
from ..state.messages import add_message_ids
from ..task.effects import Call
from ..task.nodes import Write
from ..task.task import StepOrigin, Task
from ..task.task_status import TaskStatus, read_task_statuses
from ..types import Command, RunnableConfig, StateUpdate


class NodeWrites:
    """Writes that ``update_state`` applies as if a node had made them, or as input.

    The node itself doesn't run.
    """

    __slots__ = ("name", "path", "task_id", "triggers", "writes")

    def __init__(self, name: str, index: int, task_id: str, writes: Sequence[Write]) -> None:
        self.name, self.task_id, self.writes = name, task_id, writes
        self.path: tuple[Any, ...] = (INTERRUPT, index)
        self.triggers = (INTERRUPT,)


class _Change:
    """One super-step of updates to a thread, made by ``update_state``."""

    def __init__(
        self,
        graph: CompiledGraph,
        config: RunnableConfig,
        saved: CheckpointTuple | None,
        version: NextVersion,
    ) -> None:
        saved = rename_checkpoint(graph.spec, saved)
        self.graph, self.saved, self.next_version = graph, saved, version
        configurable = config["configurable"]
        self.addressed = configurable.get("checkpoint_id") is not None
        #: Whether the thread has a newer checkpoint. Pending writes of this checkpoint then no
        #: longer count.
        self.superseded = False
        self.thread_id = str(configurable["thread_id"])
        self.ns = configurable.get("checkpoint_ns") or ""
        self.user_metadata = select_metadata(config)
        self.state: ChannelState = restore_channels(graph.spec, saved.checkpoint if saved else None)
        if saved and graph.migrated is not None:
            replace_values(graph.spec, self.state, graph.migrated, version)
        self.step: int = saved.metadata.get("step", -1) if saved else -1
        self.commits = CommitBuilder(graph.spec, self.thread_id, self.ns)
        if saved:
            self.commits.continue_from(saved)
        pending = saved.pending_writes or [] if saved else []
        self.statuses: dict[str, TaskStatus] = read_task_statuses(pending)
        null = [(n, v) for task, n, v in pending if task == NULL_TASK_ID and n != RESUME]
        if null:
            apply_writes(graph.spec, self.state, [InputWrites(INPUT, null)], version)
        self.tasks: list[Task] = []
        self.plan()

    def plan(self) -> None:
        """Plan the next tasks of the checkpoint, and store them in ``tasks``.

        Tasks that have already finished get their stored writes as ``task.writes``.
        """
        newest = self.commits.saved_id
        if newest is None:
            return
        spec, step = self.graph.spec, self.step + 1
        origin = StepOrigin(spec, self.state.values, newest, self.ns, step, step + 2)
        self.tasks = plan_tasks(spec, self.state, origin)
        handlers = restore_handlers(spec, self.tasks, self.statuses)
        self.tasks += handlers
        for task in self.tasks:
            status = self.statuses.get(task.id)
            if status is not None and status.finished:
                task.writes = status.output
        for handler in handlers:
            if handler.writes is not None:
                handler.failed.writes = ()

    @property
    def open_ids(self) -> list[str]:
        """The ids of the pending interrupts of the checkpoint."""
        planned = {task.id for task in self.tasks}
        return [
            interrupt.id
            for task_id, status in self.statuses.items()
            if task_id in planned
            for interrupt in status.open
        ]

    def commit(self, source: str, step: int, writes: Sequence[TaskWrites] = ()) -> Save:
        """Return the effect that stores the updated state as a child of the newest checkpoint.

        ``source`` and ``step`` are metadata of the new checkpoint. ``writes`` are stored as pending
        writes of its parent.
        """
        parents = self.saved.metadata.get("parents", {}) if self.saved else {}
        about = {**self.user_metadata, "source": source, "step": step, "parents": parents}
        self.commits.unsaved = list(writes)
        # All nodes are checked for pending tasks, because tasks that were pending before an update
        # remain pending.
        self.state.updated = None
        commit = self.commits.build_with_state(self.state, ids.new_uuid6(), about, None)
        self.commits.mark_stored(commit, self.state)
        self.state.former_names = None
        self.step = step
        return Save(commit)

    @property
    def config(self) -> RunnableConfig:
        """The config of the newest checkpoint, with the checkpoint ids of the calling graphs."""
        config = self.commits.config_for(self.commits.saved_id)
        parents = self.saved.metadata.get("parents") if self.saved else None
        if parents:
            config["configurable"]["checkpoint_map"] = {
                **parents,
                self.ns: self.commits.saved_id,
            }
        return config


def bulk_update(
    graph: CompiledGraph,
    config: RunnableConfig,
    supersteps: Sequence[Sequence[StateUpdate]],
    version: NextVersion,
) -> Query:
    """Apply several super-steps of updates, and return the config of the last new checkpoint.

    ``version`` is a function that returns the next channel version.

    Raises:
        InvalidUpdateError: an update can't be applied. The updates of earlier super-steps are
            stored.
    """
    if not supersteps:
        raise ValueError("No supersteps provided")
    if any(not updates for updates in supersteps):
        raise ValueError("No updates provided")
    for position, updates in enumerate(supersteps):
        saved = yield LoadCheckpoint(config)
        change = _Change(graph, config, saved, version)
        if saved is not None and change.addressed and position == 0:
            newest: CheckpointTuple = yield LoadCheckpoint(change.commits.config_for(None))
            change.superseded = newest.checkpoint["id"] != saved.checkpoint["id"]
        yield from _update(change, [StateUpdate(*update) for update in updates], config)
        configurable = {**config["configurable"], **change.config["configurable"]}
        config = {**config, "configurable": configurable}
    return change.config


def _update(
    change: _Change, updates: Sequence[StateUpdate], config: RunnableConfig
) -> Generator[Any, Any, None]:
    values, as_node = updates[0].values, updates[0].as_node
    if as_node == END and values is None:
        _require_single(updates, "Cannot apply multiple updates when clearing state")
        yield _clear_pending(change)
        return
    if as_node == COPY:
        _require_single(updates, "Cannot copy checkpoint with multiple updates")
        yield from _copy_checkpoint(change, values)
        return
    _refuse_open(change, config)
    if as_node == INPUT:
        _require_single(updates, "Cannot apply multiple updates when updating as input")
        is_command = isinstance(values, Command)
        discard = bool(config["configurable"].get("discard_pending"))
        if is_command:
            yield _apply_command(change, values)
        else:
            yield _apply_as_input(change, values, discard)
    else:
        yield from _apply_as_nodes(change, updates)


def _require_single(updates: Sequence[StateUpdate], message: str) -> None:
    if len(updates) > 1:
        raise InvalidUpdateError(message)


def _refuse_open(change: _Change, config: RunnableConfig) -> None:
    open_ids = change.open_ids
    if open_ids and not change.superseded and not config["configurable"].get("discard_pending"):
        raise PendingInterruptsError(
            f"Thread {change.thread_id!r} has pending interrupts ({', '.join(open_ids)}); "
            "an update would discard them. Answer them first, set the config key "
            "`discard_pending`, or clear them with update_state(config, None, "
            "as_node=END).",
            open_ids,
            thread_id=change.thread_id,
        )


def _clear_pending(change: _Change) -> Save:
    """Apply the writes of finished tasks, discard all other tasks, and store the state."""
    if change.tasks:
        apply_writes(change.graph.spec, change.state, change.tasks, change.next_version)
    drop_orphaned_triggers(change.graph.spec, change.state)
    return change.commit("update", change.step + 1)


def _apply_as_input(change: _Change, values: Any, discard: bool) -> Save:
    """Apply an input. With ``discard``, the pending tasks are discarded, as for a new run."""
    writes = change.graph.input_writes(values)
    if not writes:
        raise InvalidUpdateError(f"Received no input for {change.graph.input_channels}")
    dropped = change.tasks if discard else []
    for task in dropped:
        task.writes = None
    if discard:
        drop_orphaned_triggers(change.graph.spec, change.state)
    every: list[Writer] = [*dropped, InputWrites(INPUT, writes)]
    apply_writes(change.graph.spec, change.state, every, change.next_version)
    return change.commit("input", change.step + 1 if change.saved else -1)


def _apply_command(change: _Change, command: Command[Any]) -> Save:
    """Apply the ``update`` and ``goto`` of a Command. The pending tasks remain."""
    writes = list_command_writes(change.graph, command)
    apply_writes(change.graph.spec, change.state, [InputWrites(INPUT, writes)], change.next_version)
    return change.commit("update", change.step + 1)


def _copy_checkpoint(change: _Change, values: Any) -> Generator[Any, Any, None]:
    saved = change.saved
    if saved is None:
        raise InvalidUpdateError("Cannot copy a non-existent checkpoint")
    above = saved.parent_config["configurable"]["checkpoint_id"] if saved.parent_config else None
    change.commits.saved_id = above
    yield change.commit("fork", change.step + 1)
    change.superseded = False
    if not values:
        return
    change.plan()
    for item in values:
        if not isinstance(item, (list, tuple)):
            raise InvalidUpdateError(f"Invalid update item: {item} when copying checkpoint")
    yield from _apply_as_nodes(change, [StateUpdate(*item) for item in values])


def _apply_as_nodes(change: _Change, updates: Sequence[StateUpdate]) -> Generator[Any, Any, None]:
    graph, state = change.graph, change.state
    done = [task for task in change.tasks if task.writes is not None]
    if done and not change.addressed:
        # Tasks that ran on an addressed older checkpoint belong to the branch of that checkpoint.
        apply_writes(graph.spec, state, done, change.next_version)
    prepared: dict[str, list[str]] = {}
    for task in change.tasks:
        prepared.setdefault(task.name, []).append(task.id)
    ran = []
    for index, (values, as_node, task_id) in enumerate(updates):
        name = _choose_node(change, as_node, len(updates))
        if task_id is None:
            free = prepared.get(name)
            task_id = free.pop(0) if free else _make_task_id(change, index)
        writes = yield from _collect_writes(change, name, values)
        ran.append(NodeWrites(name, index, task_id, writes))
    apply_writes(graph.spec, state, ran, change.next_version)
    drop_orphaned_triggers(graph.spec, state)
    stored: list[TaskWrites] = []
    if change.saved and not change.superseded:
        stored = [TaskWrites(n.task_id, "", n.writes or [(NO_WRITES, None)]) for n in ran]
    yield change.commit("update", change.step + 1, stored)


def _make_task_id(change: _Change, index: int) -> str:
    namespace = uuid.UUID(change.commits.saved_id or ids.new_uuid6())
    return str(uuid.uuid5(namespace, f"{INTERRUPT}:{index}" if index else INTERRUPT))


def _collect_writes(change: _Change, name: str, values: Any) -> Generator[Any, Any, list[Write]]:
    """Return the channel writes of a node and its conditional edges if the node returns ``values``.

    Raises:
        InvalidUpdateError: the node doesn't write to any channel.
    """
    node = change.graph.nodes[name]
    if not node.writers:
        raise InvalidUpdateError(f"Node {name} has no writers")
    writes = add_message_ids(node.collect(values), change.graph.spec.messages)
    for branch in node.branches:
        seen = branch.view(values, change.graph.spec.channels, change.state.values, writes)
        chosen = yield Call(branch.path, seen)
        writes = [*writes, *branch.route(chosen)]
    return writes


def _choose_node(change: _Change, as_node: str | None, count: int) -> str:
    nodes = change.graph.nodes
    if as_node is None and count > 1:
        raise InvalidUpdateError("as_node is required when applying multiple updates")
    name = as_node or _find_last_node(change)
    if name is None:
        raise InvalidUpdateError("Ambiguous update, specify as_node")
    if name not in nodes:
        raise InvalidUpdateError(f"Node {name} does not exist")
    return name


def _find_last_node(change: _Change) -> str | None:
    nodes, seen = change.graph.nodes, change.state.seen
    if len(nodes) == 1:
        return next(iter(nodes))
    ran = sorted(
        (version, name) for name, read in seen.items() if name in nodes for version in read.values()
    )
    if not ran:
        return START if START in nodes else None
    if len(ran) == 1 or ran[-1][0] != ran[-2][0]:
        return ran[-1][1]
    return None
