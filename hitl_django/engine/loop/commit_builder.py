"""The builder of a run's commits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from .. import ids
from ..constants import ERROR, ERROR_SOURCE_NODE, INTERRUPT, NO_WRITES, TASKS
from ..errors import (
    DrainSignal,
    InvalidAnswerError,
    ParentCommand,
    PayloadError,
    PayloadLimitError,
    UnserializableError,
)
from ..savers.checkpoint import (
    AppendedValue,
    Checkpoint,
    CheckpointTuple,
    Commit,
    Outcome,
    TaskWrites,
)
from ..task.graph_spec import GraphSpec
from ..task.nodes import Write
from ..task.task import Task
from ..types import Chunk, RunnableConfig
from .channel_state import ChannelState, list_durable_values, strip_send
from .error_handlers import has_handler

#: The maximum number of characters of a stored error's repr. The run's outcome contains the error
#: itself.
LONGEST_ERROR = 20_000


class CommitBuilder:
    """A builder of commits, which collects the writes of a run until they are stored."""

    __slots__ = ("chunks", "grown", "ns", "parent_id", "saved_id", "spec", "thread_id", "unsaved")

    def __init__(self, spec: GraphSpec, thread_id: str | None, ns: str) -> None:
        self.spec, self.thread_id, self.ns = spec, thread_id, ns
        self.saved_id: str | None = None
        self.parent_id: str | None = None
        #: The writes to store, and the finished tasks whose writes are to be stored.
        self.unsaved: list[TaskWrites | Task] = []
        #: The chunks of the next commit, if chunks are stored.
        self.chunks: list[Chunk] = []
        #: Channels of which this run stored only the added items.
        self.grown: set[str] = set()

    def continue_from(self, saved: CheckpointTuple) -> None:
        """Set a stored checkpoint as the base of the next commit."""
        self.saved_id = saved.checkpoint["id"]
        ids.sort_ids_after(self.saved_id)
        if saved.parent_config is not None:
            self.parent_id = saved.parent_config["configurable"].get("checkpoint_id")

    def config_for(self, checkpoint_id: str | None) -> RunnableConfig:
        """Return the config of a checkpoint in the namespace of this run."""
        configurable = {"thread_id": self.thread_id, "checkpoint_ns": self.ns}
        if checkpoint_id is not None:
            configurable["checkpoint_id"] = checkpoint_id
        return {"configurable": configurable}

    def add_task(self, task: Task) -> None:
        """Add the writes of an ended task to the next commit."""
        # Most commits of a run with durability "exit" are never built, so the writes of a finished
        # task are listed later. A failed task may change before.
        is_finished = task.writes is not None
        self.unsaved.append(task if is_finished else self._list_writes(task))

    def build(self, outcome: Outcome | None) -> Commit:
        """Return a commit that stores the unstored writes and stream chunks.

        The writes become pending writes of the newest checkpoint. ``outcome`` is None if the run
        continues.
        """
        commit = Commit(self.config_for(self.saved_id), self.take_writes(), outcome=outcome)
        if self.chunks:
            commit.chunks = self.take_chunks()
        return commit

    def take_writes(self) -> list[TaskWrites]:
        """Remove and return the unstored writes, while other OS threads may add more."""
        if not self.unsaved:
            return []
        unsaved = self.unsaved.copy()
        del self.unsaved[: len(unsaved)]
        writes = [one if isinstance(one, TaskWrites) else self._list_writes(one) for one in unsaved]
        return [one for one in writes if one.writes]

    def drop_writes(self) -> None:
        """Remove the writes that aren't stored yet.

        With the durability "exit", the writes of a completed super-step are never stored, because
        the checkpoint at the end of the run contains their result.
        """
        self.unsaved.clear()

    def _list_writes(self, task: Task) -> TaskWrites:
        writes = list_stored_writes(task)
        undurable = self.spec.undurable
        if undurable:
            writes = [
                (name, strip_send(value, undurable) if name == TASKS else value)
                for name, value in writes
                if name not in undurable
            ]
        return TaskWrites(task.id, task.path_key, writes)

    def take_chunks(self) -> list[Chunk]:
        """Remove and return the unstored stream chunks, while nodes may emit more."""
        chunks = self.chunks.copy()
        del self.chunks[: len(chunks)]
        return chunks

    def build_with_state(
        self,
        state: ChannelState,
        checkpoint_id: str,
        metadata: dict[str, Any],
        outcome: Outcome | None,
    ) -> Commit:
        """Return a commit of the unstored writes, with the channel state as the next checkpoint."""
        commit = self.build(outcome)
        commit.checkpoint = build_checkpoint(self.spec, state, checkpoint_id)
        commit.metadata = metadata  # type: ignore[assignment]
        undurable = self.spec.undurable
        commit.new_versions = {
            name: state.versions[name] for name in state.touched if name not in undurable
        }
        return commit

    def list_grown(self, state: ChannelState) -> dict[str, AppendedValue]:
        """Return the lists and dicts of which this run has stored only the added items.

        The last commit of a run contains them, so that the saver can compare the whole values with
        the stored values.
        """
        return {
            name: AppendedValue(state.versions[name], state.values[name])
            for name in self.grown
            if name not in state.touched and name in state.values
        }

    def mark_stored(self, commit: Commit, state: ChannelState) -> None:
        """Register that ``commit`` was stored.

        If the commit contains a checkpoint, the next commit is based on this checkpoint, and
        ``state`` has no unstored changes any more.
        """
        if commit.checkpoint is not None:
            self.grown.update(commit.added or ())
            state.touched, state.added = set(), {}
            self.parent_id, self.saved_id = self.saved_id, commit.checkpoint["id"]


def build_checkpoint(spec: GraphSpec, state: ChannelState, checkpoint_id: str) -> Checkpoint:
    # copy() clones a dict with deleted keys, as here, faster than dict(), which inserts all keys.
    checkpoint: Checkpoint = {
        "v": 4,
        "id": checkpoint_id,
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": list_durable_values(spec, state),
        "channel_versions": state.versions.copy(),
        "versions_seen": state.seen.copy(),
        "updated_channels": None if state.updated is None else sorted(state.updated),
        "clock": state.clock,
    }
    if spec.renames:
        checkpoint["renamed"] = spec.renames.old_names
    return checkpoint


def list_stored_writes(task: Task) -> Sequence[Write]:
    """Return the writes to store for an ended task: its result, its error or its once() results."""
    if task.writes is not None:
        # A finished task without writes must also be stored as finished.
        return task.writes or [(NO_WRITES, None)]
    if isinstance(task.error, (InvalidAnswerError, ParentCommand)):
        return ()
    if isinstance(task.error, DrainSignal):
        return task.memory
    if not task.pending_interrupts:
        # The message is stored for an error handler that runs later in another process.
        source = (
            [(ERROR_SOURCE_NODE, [task.name, _describe_message(task.error)])]
            if has_handler(task)
            else []
        )
        return [(ERROR, describe_error(task.error)), *source, *task.memory]
    return [(INTERRUPT, task.interrupts), *task.memory] if task.interrupts else task.memory


def describe_error(error: BaseException | None) -> str:
    """Return the repr of an error, shortened to the maximum length that is stored.

    If the error's ``__repr__`` raises an error, a substitute text is returned.
    """
    try:
        text = repr(error)
    except Exception:
        text = f"{type(error).__name__}(), which can't be displayed"
    return _storable(text)


def _describe_message(error: BaseException | None) -> str:
    try:
        return _storable(str(error))
    except Exception:
        return describe_error(error)


def _storable(text: str) -> str:
    if len(text) > LONGEST_ERROR:
        text = f"{text[:LONGEST_ERROR]}..."
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


def blame_node(error: PayloadError, name: str, writes: Sequence[Write]) -> PayloadError:
    """Return an error that names the node, and the state key with the value that can't be stored.

    ``error`` is the original error. ``name`` is the name of the node.
    """
    if isinstance(error, PayloadLimitError):
        return PayloadLimitError(
            f"Node '{name}' returned a value that can't be stored: {error}",
            limit=error.limit,
            found=error.found,
        )
    path = getattr(error, "path", "")
    found = re.match(r"\$\[(\d+)\]\[1\](.*)", path)
    if found is None or int(found[1]) >= len(writes):
        error.add_note(f"During task with name '{name}'")
        return error
    key = f"$.{writes[int(found[1])][0]}{found[2]}"
    text = str(error).replace(path, key, 1)
    return UnserializableError(f"Node '{name}' returned a value that can't be stored: {text}", key)
