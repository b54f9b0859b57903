"""What all tasks of one run of one graph share, and who has threads for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import Any, Protocol

from ..savers.checkpoint import BaseCheckpointSaver, Commit
from ..savers.thread_lease import LocalThreadLease, Stream
from ..types import RunnableConfig
from .callbacks import list_handlers
from .chunk_buffer import ChunkBuffer
from .deferred_commits import DeferredCommits, UnsavedRun
from .runtime import RunControl, Runtime
from .tool_stream import ToolStream


class Spawner(Protocol):
    """A driver that has threads to spare, and may have an event loop: ``home``."""

    home: asyncio.AbstractEventLoop | None

    def spawns(self) -> bool:
        """Return whether the calling thread may leave work to another one and wait for it."""

    def spawn(self, work: Callable[[], None]) -> None:
        """Does the work on another thread."""


class UnaddressedResumes(Protocol):
    """Answers that name no question: a list, or what can be taken from one that others share."""

    def __len__(self) -> int:
        """Return how many are left."""

    def pop(self) -> Any:
        """Take one."""


class Replay:
    """What graphs further down need to know of a run from an older checkpoint.

    A graph that keeps one history per thread is first taken up as it was before ``bound``, the
    checkpoint id where the replay began; after that as the replay itself left it.
    """

    __slots__ = ("_visited", "bound")

    def __init__(self, bound: str) -> None:
        self.bound = bound
        self._visited: set[str] = set()

    def visits_first(self, ns: str) -> bool:
        """Return whether this replay comes to the namespace for the first time, and notes it."""
        stable = ns.rpartition(":")[0] or ns
        if stable in self._visited:
            return False
        self._visited.add(stable)
        return True


class RunContext:
    """What all tasks of one run of one graph share.

    ``perform`` makes a saver call where saver calls may be made: on the thread of the outermost
    driver. ``answers`` are resume values by interrupt id, and go down whole into subgraphs.
    ``modes`` are the stream modes of the loop, of which ``forwards`` go on to the run above.
    """

    __slots__ = (
        "above",
        "ambient_config",
        "answers",
        "around_call",
        "callbacks",
        "calls_home",
        "checkpoint_ids",
        "checkpoint_map",
        "chunk_buffer",
        "config",
        "control",
        "deferred",
        "durability",
        "emit",
        "forwards",
        "host",
        "lease",
        "live",
        "loop_state",
        "message_recorder",
        "message_stream",
        "modes",
        "passes_breakpoints",
        "perform",
        "progress",
        "reasks",
        "replay",
        "reruns_unanswered",
        "resuming",
        "runtime",
        "saver",
        "savers",
        "spawner",
        "store",
        "stream",
        "subgraphs",
        "thread_id",
        "tool_stream",
        "trace",
        "wildcard",
        "within",
    )

    def __init__(
        self,
        *,
        config: RunnableConfig,
        saver: BaseCheckpointSaver | None,
        thread_id: str | None,
        store: Any,
        runtime: Runtime[Any],
        control: RunControl | None,
        durability: str,
        modes: frozenset[str],
        emit: Callable[[tuple[Any, ...]], None],
        forwards: frozenset[str],
        subgraphs: bool,
        live: bool,
        perform: Callable[..., Any],
        answers: dict[str, Any],
        passes_breakpoints: bool,
        checkpoint_map: dict[str, str],
    ) -> None:
        self.config, self.saver, self.thread_id, self.store = config, saver, thread_id, store
        self.runtime, self.control, self.durability = runtime, control, durability
        self.modes, self.emit, self.live, self.perform = modes, emit, live, perform
        self.forwards, self.subgraphs = forwards, subgraphs
        self.answers, self.passes_breakpoints = answers, passes_breakpoints
        self.checkpoint_map = checkpoint_map
        self.around_call = None if saver is None else saver.around_call
        #: Those of the runs above it, too: whichever can't be reached, this run can't go on.
        self.savers: Collection[BaseCheckpointSaver] = () if saver is None else (saver,)
        #: What is stored later than it ends; None where that is nothing.
        self.deferred = DeferredCommits() if saver is not None and durability != "sync" else None
        #: The run that a node of makes this one, as a part of it.
        self.above: RunContext | None = None
        #: The generator that performs it, and its lease on its thread.
        self.stream: Stream
        self.lease: LocalThreadLease | None = None
        #: Whether an async graph has a sync run above it, on whose thread saver calls are made.
        self.calls_home = False
        #: Whether a node makes this run.
        self.within = False
        #: Whether a task that waits for an answer runs again when another one is answered.
        self.reruns_unanswered = True
        #: Whether an answer that doesn't fit is asked for again, rather than raised to the caller.
        self.reasks = False
        self.callbacks = list_handlers(config.get("callbacks")) if "callbacks" in config else []
        self.resuming = False
        #: Reports progress to a node above, whose time without progress is limited.
        self.progress: Callable[[], None] | None = None
        self.replay: Replay | None = None
        #: The chunks of its tasks, where they are stored with what the tasks do.
        self.chunk_buffer: ChunkBuffer | None = None
        #: The answer for whichever question comes first: only for a run from an older checkpoint
        #: that the caller addressed, where no question is known yet.
        self.wildcard: UnaddressedResumes = []
        self.checkpoint_ids: dict[str, str] = {}
        #: The variable in which langchain looks for a node's config, once langchain is loaded.
        self.ambient_config: ContextVar[Any] | None = None
        #: What streams the messages of its nodes' models.
        self.message_stream: Any = None
        #: Stores what models say while they do, where that is recorded.
        self.message_recorder: Any = None
        #: What streams the calls of its tools.
        self.tool_stream: ToolStream | None = None
        #: The node of LangGraph's that makes this run.
        self.host: Any = None
        #: Tells langchain's callbacks of the run and its tasks; None where there are none.
        self.trace: Any = None
        #: The LoopState of this run, which tasks know nothing of, and who has threads for the tasks
        #: that its nodes call.
        self.loop_state: Any
        self.spawner: Spawner | None = None

    def commit(self, commit: Commit) -> None:
        """Store a commit, after those that are under way."""
        if self.deferred is not None:
            self.deferred.wait()
        self.saver.commit(commit)  # type: ignore[union-attr]

    async def acommit(self, commit: Commit) -> None:
        """Like commit, on the running event loop."""
        if self.deferred is not None:
            await self.deferred.await_()
        await self.saver.acommit(commit)  # type: ignore[union-attr]

    def store_steps(self) -> None:
        """Store what waits of the steps that have ended, of this run and of those above it."""
        states: list[UnsavedRun] = []
        run: RunContext | None = self
        while run is not None:
            states.insert(0, run.loop_state)
            run = run.above
        if self.deferred is not None:
            self.deferred.store_steps(states)

    def is_foreign_error(self, error: BaseException) -> bool:
        """Return whether a saver's storage is gone, or the task queue stops the task."""
        control = self.control
        if control is not None and control.is_stop(error):
            return True
        return any(saver.is_storage_error(error) for saver in self.savers)
