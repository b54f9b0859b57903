"""The context shared by all tasks of one run of one graph."""

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
    """A driver that can run work on another OS thread. ``event_loop`` is its event loop or None."""

    event_loop: asyncio.AbstractEventLoop | None

    def may_wait(self) -> bool:
        """Return whether the calling OS thread may wait for work on another OS thread."""

    def spawn(self, work: Callable[[], None]) -> None:
        """Run ``work`` on another OS thread."""


class UnaddressedResumes(Protocol):
    """Resume values without an interrupt id.

    A run shares this object with the runs of its subgraphs, so each value is used only once.
    """

    def __len__(self) -> int:
        """Return the number of remaining values."""

    def pop(self) -> Any:
        """Remove and return the next value."""


class Replay:
    """The replay of a run from an older checkpoint, shared with the subgraphs of the run.

    A subgraph with ``checkpointer=True`` usually continues from its newest stored state. In its
    first call during the replay, such a subgraph instead continues from its newest state before the
    checkpoint id ``bound``.
    """

    __slots__ = ("_visited", "bound")

    def __init__(self, bound: str) -> None:
        self.bound = bound
        self._visited: set[str] = set()

    def visits_first(self, ns: str) -> bool:
        """Return whether a call of a subgraph is the first in its namespace during the replay.

        Record the call for later checks.
        """
        stable = ns.rpartition(":")[0] or ns
        if stable in self._visited:
            return False
        self._visited.add(stable)
        return True


class RunContext:
    """The context shared by all tasks of one run of one graph.

    ``perform(function, *args)`` calls a function that uses the saver, on the OS thread of the root
    run's driver. ``answers`` are resume values by interrupt id, including the resume values for
    subgraphs. ``modes`` are the stream modes of the chunks that the loop emits. Chunks whose stream
    mode is in ``forwards`` are passed to the calling run.
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
        #: This includes the savers of the calling runs. If any of the savers is unavailable, the
        #: run can't proceed.
        self.savers: Collection[BaseCheckpointSaver] = () if saver is None else (saver,)
        #: The delayed commits, or None if all commits are stored immediately.
        self.deferred = DeferredCommits() if saver is not None and durability != "sync" else None
        #: The run whose node called this graph, or None for a root run.
        self.above: RunContext | None = None
        #: The generator that executes the run, and its lease on the thread.
        self.stream: Stream
        self.lease: LocalThreadLease | None = None
        #: Whether this is an async run inside a sync run, whose OS thread makes the saver calls.
        self.calls_home = False
        #: Whether a node started this run.
        self.within = False
        #: Whether a task with a pending interrupt runs again when another interrupt is resolved.
        self.reruns_unanswered = True
        #: Whether an invalid response makes the interrupt pending again instead of raising an
        #: error.
        self.reasks = False
        self.callbacks = list_handlers(config.get("callbacks")) if "callbacks" in config else []
        self.resuming = False
        #: Reports progress to a calling node that has an idle timeout.
        self.progress: Callable[[], None] | None = None
        self.replay: Replay | None = None
        #: The chunks of the run's tasks, or None if chunks aren't stored.
        self.chunk_buffer: ChunkBuffer | None = None
        #: Resume values for the first interrupts. They are used only by a run from an addressed
        #: older checkpoint, whose interrupts aren't known in advance.
        self.wildcard: UnaddressedResumes = []
        self.checkpoint_ids: dict[str, str] = {}
        #: The variable from which langchain reads a node's config, or None if langchain isn't
        #: loaded.
        self.ambient_config: ContextVar[Any] | None = None
        #: Streams the messages of the models called in the run's nodes.
        self.message_stream: Any = None
        #: Stores messages while models generate them, if the run is recorded.
        self.message_recorder: Any = None
        #: Streams the run's tool calls.
        self.tool_stream: ToolStream | None = None
        #: The LangGraph node that started this run, or None.
        self.host: Any = None
        #: Reports the run and its tasks to langchain's callbacks; None without callbacks.
        self.trace: Any = None
        #: The LoopState of this run, which tasks don't use, and the driver with OS threads for
        #: called tasks.
        self.loop_state: Any
        self.spawner: Spawner | None = None

    def commit(self, commit: Commit) -> None:
        """Store a commit. If another commit is being stored, wait for it first."""
        if self.deferred is not None:
            self.deferred.wait()
        self.saver.commit(commit)  # type: ignore[union-attr]

    async def acommit(self, commit: Commit) -> None:
        """Async variant of commit."""
        if self.deferred is not None:
            await self.deferred.await_()
        await self.saver.acommit(commit)  # type: ignore[union-attr]

    def store_steps(self) -> None:
        """Store the unstored super-steps of this run and of its calling runs."""
        states: list[UnsavedRun] = []
        run: RunContext | None = self
        while run is not None:
            states.insert(0, run.loop_state)
            run = run.above
        if self.deferred is not None:
            self.deferred.store_steps(states)

    def is_foreign_error(self, error: BaseException) -> bool:
        """Return whether the cause of an error is unavailable storage or a requested stop."""
        control = self.control
        if control is not None and control.is_stop(error):
            return True
        return any(saver.is_storage_error(error) for saver in self.savers)
