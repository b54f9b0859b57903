"""What a run has stored and what it has yet to store: commits are made here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from .. import ids
from ..constants import ERROR, ERROR_SOURCE_NODE, INTERRUPT, NO_WRITES
from ..errors import (
    DrainSignal,
    InvalidAnswerError,
    ParentCommand,
    PayloadError,
    PayloadLimitError,
    UnserializableError,
)
from ..savers.checkpoint import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    Outcome,
    TaskWrites,
)
from ..task.nodes import Write
from ..types import RunnableConfig
from .error_handlers import takes
from .graph_spec import Blueprint, State
from .plan import Task
from .stream_modes import Chunk

#: Characters of a failure's repr that are stored: the error itself is the run's outcome.
LONGEST_ERROR = 20_000


class Ledger:
    """The newest stored checkpoint, the one before it, and what waits for the next commit."""

    __slots__ = ("blueprint", "ns", "parent_id", "saved_id", "thread_id", "told", "unsaved")

    def __init__(self, blueprint: Blueprint, thread_id: str | None, ns: str) -> None:
        self.blueprint, self.thread_id, self.ns = blueprint, thread_id, ns
        self.saved_id: str | None = None
        self.parent_id: str | None = None
        self.unsaved: list[TaskWrites] = []
        #: What the next commit tells, where that is stored.
        self.told: list[Chunk] = []

    def take_up(self, saved: CheckpointTuple) -> None:
        """Continues from a stored checkpoint."""
        self.saved_id = saved.checkpoint["id"]
        ids.follow(self.saved_id)
        if saved.parent_config is not None:
            self.parent_id = saved.parent_config["configurable"].get("checkpoint_id")

    def config_for(self, checkpoint_id: str | None) -> RunnableConfig:
        """Returns the coordinates of a checkpoint of this run."""
        place = {"thread_id": self.thread_id, "checkpoint_ns": self.ns}
        if checkpoint_id is not None:
            place["checkpoint_id"] = checkpoint_id
        return {"configurable": place}

    def note(self, task: Task) -> None:
        """Notes what is to be stored of a task that has ended."""
        writes = stored_writes(task)
        undurable = self.blueprint.undurable
        if undurable:
            writes = [write for write in writes if write[0] not in undurable]
        if writes:
            self.unsaved.append(TaskWrites(task.id, task.path_key, writes))

    def commit(self, outcome: Outcome | None) -> Commit:
        """Returns a commit of what waits, on top of the newest checkpoint."""
        writes, self.unsaved = self.unsaved, []
        commit = Commit(self.config_for(self.saved_id), writes, outcome=outcome)
        if self.told:
            commit.told = tuple(self.told)
            self.told.clear()
        return commit

    def commit_state(
        self, state: State, checkpoint_id: str, metadata: dict[str, Any], outcome: Outcome | None
    ) -> Commit:
        """Returns a commit of what waits, and of the state as the next checkpoint."""
        commit = self.commit(outcome)
        commit.checkpoint = checkpoint_of(self.blueprint, state, checkpoint_id)
        commit.metadata = CheckpointMetadata(**metadata)  # type: ignore[typeddict-item]
        undurable = self.blueprint.undurable
        commit.new_versions = {
            name: state.versions[name] for name in state.touched if name not in undurable
        }
        return commit

    def stored(self, commit: Commit, state: State) -> None:
        """Notes that a commit has been stored."""
        if commit.checkpoint is not None:
            state.touched = set()
            self.parent_id, self.saved_id = self.saved_id, commit.checkpoint["id"]


def checkpoint_of(blueprint: Blueprint, state: State, checkpoint_id: str) -> Checkpoint:
    """Returns a state as a checkpoint."""
    # copy() clones a dict that has lost keys, as these have; dict() would insert each key again.
    return {
        "v": 4,
        "id": checkpoint_id,
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": blueprint.durable_values(state),
        "channel_versions": state.versions.copy(),
        "versions_seen": state.seen.copy(),
        "updated_channels": None if state.updated is None else sorted(state.updated),
        "clock": state.clock,
    }


def stored_writes(task: Task) -> Sequence[Write]:
    """Returns what is stored of a task that has run: its writes, or why it has none."""
    if task.writes is not None:
        # A task that wrote nothing has to look finished all the same.
        return task.writes or [(NO_WRITES, None)]
    if isinstance(task.error, (InvalidAnswerError, ParentCommand)):
        return ()
    if isinstance(task.error, DrainSignal):
        return task.memory
    if not task.questions:
        # A handler that runs later, in another process, is told the same words.
        source = [(ERROR_SOURCE_NODE, [task.name, _said(task.error)])] if takes(task) else []
        return [(ERROR, described(task.error)), *source, *task.memory]
    return [(INTERRUPT, task.asked), *task.memory] if task.asked else task.memory


def described(error: BaseException | None) -> str:
    """Returns an error as it is stored: its repr, which a node's own class may have spoiled."""
    try:
        said = repr(error)
    except Exception:
        said = f"{type(error).__name__}(), which can't be shown"
    return _storable(said)


def _said(error: BaseException | None) -> str:
    """Returns an error's message as it is stored."""
    try:
        return _storable(str(error))
    except Exception:
        return described(error)


def _storable(said: str) -> str:
    if len(said) > LONGEST_ERROR:
        said = f"{said[:LONGEST_ERROR]}..."
    return said.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


def blamed(error: PayloadError, name: str, writes: Sequence[Write]) -> PayloadError:
    """Returns a refusal to store a task's writes in words that name the node and the key."""
    if isinstance(error, PayloadLimitError):
        return PayloadLimitError(
            f"Node '{name}' returned what can't be stored: {error}",
            limit=error.limit,
            found=error.found,
        )
    path = getattr(error, "path", "")
    found = re.match(r"\$\[(\d+)\]\[1\](.*)", path)
    if found is None or int(found[1]) >= len(writes):
        error.add_note(f"During task with name '{name}'")
        return error
    key = f"$.{writes[int(found[1])][0]}{found[2]}"
    said = str(error).replace(path, key, 1)
    return UnserializableError(f"Node '{name}' returned what can't be stored: {said}", key)
