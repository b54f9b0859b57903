"""What the loop asks of its driver."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from ..savers.checkpoint import Commit
from ..task.callbacks import GraphInterruptEvent, GraphResumeEvent
from ..task.context import TaskContext
from ..task.effects import Call
from ..types import Chunk, RunnableConfig


class Load:
    """Asks for the addressed checkpoint; the reply is a CheckpointTuple or None."""

    __slots__ = ("config",)

    def __init__(self, config: RunnableConfig) -> None:
        self.config = config


class List:
    """Asks for stored checkpoints, newest first; the reply is a list of CheckpointTuples."""

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
    """Asks for a call, where saver calls are made: of the lease on a thread, or of a run above."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call


class Save:
    """Asks for a commit to be stored before going on."""

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit


class SaveAsync:
    """Asks for a commit to be stored while the loop goes on.

    What keeps it from being stored is raised before another one is.
    """

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit


class SaveAll:
    """Asks for several commits to be stored before going on: all of them, or none."""

    __slots__ = ("commits",)

    def __init__(self, commits: Sequence[Commit]) -> None:
        self.commits = commits


class RunTasks:
    """Asks for tasks to be started; the reply is a list of those that have ended already."""

    __slots__ = ("contexts",)

    def __init__(self, contexts: Sequence[TaskContext]) -> None:
        self.contexts = contexts


class StartTasks(RunTasks):
    """Asks for further tasks to be started while others are running, and not to wait for them."""

    __slots__ = ()


class Await:
    """Asks for tasks that have ended; the reply is a list of at least one."""

    __slots__ = ()


class Cancel:
    """Asks to drop the tasks that can still be dropped; the reply is their number."""

    __slots__ = ()


class CacheRead:
    """Asks the cache for results; the reply is a dict of those it has, by key."""

    __slots__ = ("keys",)

    def __init__(self, keys: Sequence[Any]) -> None:
        self.keys = keys


class CacheWrite:
    """Asks the cache to keep results: by key, each with the seconds that it is good for."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Mapping[Any, tuple[Any, int | None]]) -> None:
        self.pairs = pairs


class Notify:
    """Asks for the caller's callback handlers to be called at a pause or a resume."""

    __slots__ = ("event",)

    def __init__(self, event: GraphInterruptEvent | GraphResumeEvent) -> None:
        self.event = event


class Emit:
    """Asks for chunks to be handed to the caller."""

    __slots__ = ("chunks",)

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks


Effect = (
    Load
    | List
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
#: What a saver is asked for, or somebody where it is.
SaverCall = Load | List | Save | SaveAll | CallStorage
Effects = Generator[Effect, Any, None]
#: A look at what is stored, or a change of it: no tasks, no chunks.
Query = Generator[Load | List | Save | Call, Any, Any]
AWAIT, CANCEL = Await(), Cancel()
