"""The state of one run of one graph. All phases of the loop use this state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..constants import NS_END
from ..savers.checkpoint import CheckpointMetadata, Commit, Outcome, select_metadata
from ..task.run_context import RunContext
from ..task.task import StepOrigin, Task
from ..task.task_status import TaskStatus
from ..types import All, Chunk
from .apply import NextVersion, count_version
from .channel_state import ChannelState
from .commit_builder import CommitBuilder
from .compiled_graph import CompiledGraph
from .effects import Save, SaveAll, SaveAsync
from .error_handlers import get_handled_failure
from .node_cache import FullKey
from .plan import read_state

#: The stream modes with chunks about each checkpoint or task.
_DESCRIBING = frozenset(("checkpoints", "tasks", "debug"))


@dataclass(slots=True)
class RunRequest:
    """The request for a run of a graph.

    ``kind`` is ``call`` (invoke, stream), ``advance`` (run from the stored state) or ``submit``
    (store the input without running). ``addressed`` is true if the caller named a checkpoint.
    ``answers_ns`` is the namespace of the subgraph whose interrupts get the resume values.
    """

    kind: str
    input: Any
    ns: str
    checkpoint_id: str | None
    addressed: bool
    nested: bool
    recursion_limit: int
    before: All | Sequence[str]
    after: All | Sequence[str]
    discard_pending: bool = False
    answers_ns: str = ""
    max_concurrency: int | None = None
    #: Former namespaces of a graph that stores a separate history, if its calling node was renamed.
    former_ns: tuple[str, ...] = ()

    @property
    def starts_over(self) -> bool:
        """Whether the graph is a subgraph that starts with its input on each call.

        The namespace of such a subgraph contains the id of the calling task.
        """
        return NS_END in self.ns


class LoopState:
    """The state of one run of one graph.

    These attributes don't change during the run: ``graph`` and its ``spec``, the request ``job``,
    the context ``run`` shared by the run's tasks, and the stream modes ``wanted`` and ``printed``
    of the caller. The loop changes these attributes:

    - ``channel_state`` and ``origin`` belong to the newest checkpoint. ``tasks`` are the tasks that
      follow this checkpoint. ``ran`` are the tasks of the current super-step.
    - ``statuses`` are the stored writes of the super-step's tasks, by task id.
    - ``checkpoint_id`` and ``metadata`` belong to the newest checkpoint.
    - ``commits`` is the builder of commits.
    - ``running`` is the number of started tasks that the loop has not processed. ``broken`` is a
      failure that occurred while other tasks were running.
    - ``outcome`` is the result of the run, or None while the run is active.
    """

    __slots__ = (
        "broken",
        "cache_keys",
        "careful",
        "channel_state",
        "checkpoint_id",
        "commits",
        "describes",
        "exits",
        "forward",
        "graph",
        "has_values",
        "is_silent",
        "job",
        "metadata",
        "next_version",
        "origin",
        "outcome",
        "output_keys",
        "output_set",
        "overlaps",
        "pass_on",
        "printed",
        "ran",
        "records",
        "run",
        "running",
        "saver",
        "spec",
        "statuses",
        "stopped_after",
        "tasks",
        "user_metadata",
        "wanted",
        "withheld",
    )

    def __init__(
        self,
        graph: CompiledGraph,
        job: RunRequest,
        run: RunContext,
        wanted: frozenset[str],
        output_keys: Sequence[str] | str | None = None,
        printed: frozenset[str] = frozenset(),
    ) -> None:
        self.graph, self.job, self.run = graph, job, run
        self.wanted, self.printed = wanted, printed
        #: Passes chunks to the calling run; None if no run called this run.
        self.forward: Callable[[Chunk], None] | None = None
        #: Passes chunks to the calling task if this run stores nothing itself; otherwise None.
        self.pass_on: Callable[[Chunk], None] | None = None
        if output_keys is None:
            self.output_keys, self.output_set = graph.output_channels, graph.output_set
        else:
            self.output_keys = output_keys
            self.output_set = frozenset(
                (output_keys,) if isinstance(output_keys, str) else output_keys
            )
        self.spec = graph.spec
        self.saver = run.saver
        self.next_version: NextVersion = (
            run.saver.get_next_version if run.saver is not None else count_version
        )
        #: Whether all commits are delayed until the run stops.
        self.exits = run.durability == "exit" and run.saver is not None
        #: Whether a step is stored while the next step runs.
        self.overlaps = run.durability == "async" and run.saver is not None
        #: Whether chunks are stored in the commits of their tasks.
        self.records = run.chunk_buffer is not None and not job.nested
        #: Whether the stream describes each checkpoint or each task.
        self.describes = not _DESCRIBING.isdisjoint(run.modes)
        #: Whether the run has neither a saver nor stream modes.
        self.is_silent = run.saver is None and not run.modes
        #: Whether failures may be handled by an error handler, or results may come from the cache.
        self.careful = graph.spec.handled or graph.cache is not None
        #: The cache keys of the running tasks, by task id; None if the graph has no cache.
        self.cache_keys: dict[str, FullKey] | None = None if graph.cache is None else {}
        self.user_metadata = select_metadata(run.config) if run.saver or run.modes else {}
        self.outcome: Outcome | None = None
        #: Whether the result of the run contains the values of the output channels.
        self.has_values = False
        #: Whether a breakpoint stopped the run after a node instead of before a node.
        self.stopped_after = False
        self.tasks: list[Task] = []
        self.ran: list[Task] = []
        self.statuses: dict[str, TaskStatus] = {}
        self.channel_state: ChannelState
        self.origin: StepOrigin
        self.checkpoint_id: str | None = None
        self.metadata: CheckpointMetadata = {}
        self.commits = CommitBuilder(self.spec, run.thread_id, job.ns)
        #: Chunks that are delayed until their writes are stored, by task id. None if chunks are
        #: emitted immediately or are stored themselves.
        self.withheld: list[tuple[str | None, Sequence[Chunk]]] | None = None
        if run.modes and run.saver is not None and not self.exits and run.chunk_buffer is None:
            self.withheld = []
        self.running = 0
        self.broken: Outcome | None = None

    @property
    def ns(self) -> tuple[str, ...]:
        """The namespace as in stream chunks: a tuple with one text for each level of subgraphs."""
        return tuple(self.job.ns.split("|")) if self.job.ns else ()

    @property
    def leaves_unstored(self) -> bool:
        """Whether a run was abandoned before its super-steps were stored (durability "exit")."""
        if not self.exits or self.outcome is not None or not self.tasks:
            return False
        return self.run.lease is None or not self.run.lease.is_lost

    def save(self, commit: Commit) -> Save:
        """Return the effect that stores a commit under the run's lease on the thread."""
        self._bind(commit)
        return Save(commit)

    def save_async(self, commit: Commit) -> SaveAsync:
        """Return the effect that stores a commit while the next super-step runs."""
        self._bind(commit)
        return SaveAsync(commit)

    def save_all(self, commits: Sequence[Commit]) -> SaveAll:
        """Return the effect that stores several commits atomically."""
        for commit in commits:
            self._bind(commit)
        return SaveAll(commits)

    def _bind(self, commit: Commit) -> None:
        lease = commit.lease = self.run.lease
        if lease is not None and lease.is_lost:
            lease.refuse_lost()

    @property
    def has_unsaved_commits(self) -> bool:
        """Whether the current checkpoint isn't stored yet, because of the durability "exit"."""
        return self.exits and self.origin.checkpoint_id not in (None, self.commits.saved_id)

    def build_state_commit(self, outcome: Outcome | None) -> Commit:
        """Return a commit of the unstored writes, and of the state as the next checkpoint."""
        full_metadata = {**self.user_metadata, **self.metadata}
        channels = self.channel_state
        commit = self.commits.build_with_state(
            channels, self.origin.checkpoint_id, full_metadata, outcome
        )
        if outcome is not None:
            commit.grown = self.commits.list_grown(channels)
        if not self.exits:
            commit.added = channels.added
        return commit

    def build_overdue(self, outcome: Outcome | None) -> list[Commit]:
        """Return the commits that the durability "exit" has delayed.

        The first commit stores the current checkpoint. If this checkpoint has pending writes, a
        second commit stores them.
        """
        writes = self.commits.take_writes()
        if not writes:
            return [self.build_state_commit(outcome)]
        checkpoint_commit = self.build_state_commit(None)
        write_config = self.commits.config_for(self.origin.checkpoint_id)
        return [checkpoint_commit, Commit(write_config, writes, outcome=outcome)]

    def store_overdue(self) -> None:
        """Store the super-steps that the durability "exit" has delayed.

        The saver is called on this OS thread.
        """
        if self.has_unsaved_commits:
            commits = self.save_all(self.build_overdue(None)).commits
            self.run.saver.commit_all(commits)  # type: ignore[union-attr]
            self.mark_stored(commits)

    def mark_stored(self, commits: Sequence[Commit]) -> None:
        """Register that commits were stored, so that the next commit contains only later data."""
        for commit in commits:
            self.commits.mark_stored(commit, self.channel_state)

    @property
    def has_thread_lease(self) -> bool:
        lease = self.run.lease
        return lease is not None and not lease.is_over and not self.job.nested

    def list_unfinished_nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes whose tasks in this super-step have not finished."""
        return tuple(t.name for t in self.tasks if not t.writes and get_handled_failure(t) is None)

    def read_output(self) -> Any:
        """Return the values of the output channels."""
        return self.read_channels(self.output_keys)

    def read_channels(self, keys: Sequence[str] | str) -> Any:
        """Return the value of one channel, or a dict of the values of several channels."""
        if isinstance(keys, str):
            return read_state(self.spec, self.channel_state.values, (keys,)).get(keys)
        return read_state(self.spec, self.channel_state.values, keys)
