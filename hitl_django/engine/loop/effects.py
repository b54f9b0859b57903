"""Effects: I/O operations that the loop requests from its driver."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from ..savers.checkpoint import Commit
from ..task.callbacks import GraphInterruptEvent, GraphResumeEvent
from ..task.context import TaskContext
from ..task.effects import Call
from ..types import Chunk, RunnableConfig


class LoadCheckpoint:
    """A request for a checkpoint. The reply is a CheckpointTuple or None."""

    __slots__ = ("config",)

    def __init__(self, config: RunnableConfig) -> None:
        self.config = config


class ListCheckpoints:
    """A request for stored checkpoints. The reply is a list of CheckpointTuples, newest first."""

    __slots__ = ("before", "config", "filter", "limit")

    def __init__(
        self,
        config: RunnableConfig,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> None:
        self.config, self.filter, self.before, self.limit = config, filter, before, limit


class CallStorage:
    """A request to call a function that accesses the storage, such as a lease check.

    The function is called on the OS thread on which the saver's methods are called.
    """

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call


class Save:
    """A request to store a commit before the loop continues."""

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit


class SaveAsync:
    """A request to store a commit while the loop continues.

    If storing the commit fails, the error is raised before the next commit.
    """

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit


class SaveAll:
    """A request to store several commits atomically before the loop continues."""

    __slots__ = ("commits",)

    def __init__(self, commits: Sequence[Commit]) -> None:
        self.commits = commits


class RunTasks:
    """A request to start tasks. The reply is a list of the tasks that have already ended."""

    __slots__ = ("contexts",)

    def __init__(self, contexts: Sequence[TaskContext]) -> None:
        self.contexts = contexts


class StartTasks(RunTasks):
    """A request to start additional tasks while other tasks run."""

    __slots__ = ()


class Await:
    """A request to wait for running tasks. The reply is a list of at least one ended task."""

    __slots__ = ()


class Cancel:
    """A request to cancel the running tasks. The reply is the number of cancelled tasks."""

    __slots__ = ()


class CacheRead:
    """A request for cached results. The reply is a dict of the available results by key."""

    __slots__ = ("keys",)

    def __init__(self, keys: Sequence[Any]) -> None:
        self.keys = keys


class CacheWrite:
    """A request to cache results, each with its key and its lifetime in seconds."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Mapping[Any, tuple[Any, int | None]]) -> None:
        self.pairs = pairs


class Notify:
    """A request to call the callback handlers in the run's config, for a pause or a resumption."""

    __slots__ = ("event",)

    def __init__(self, event: GraphInterruptEvent | GraphResumeEvent) -> None:
        self.event = event


class Emit:
    """A request to pass stream chunks to the caller."""

    __slots__ = ("chunks",)

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks


Effect = (
    LoadCheckpoint
    | ListCheckpoints
    | CallStorage
    | Save
    | SaveAsync
    | SaveAll
    | RunTasks
    | Await
    | Cancel
    | CacheRead
    | CacheWrite
    | Notify
    | Emit
)
#: Effects performed by a saver, or on the OS thread of the saver calls.
SaverCall = LoadCheckpoint | ListCheckpoints | Save | SaveAll | CallStorage
Effects = Generator[Effect, Any, None]
#: A read or change of stored data, without tasks and chunks.
Query = Generator[LoadCheckpoint | ListCheckpoints | Save | Call, Any, Any]
AWAIT, CANCEL = Await(), Cancel()
