"""The checkpointer's interface, and the records that it stores of a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from random import getrandbits
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict

from ..serde import JsonPlusSerializer, SerializerProtocol, maybe_add_typed_methods
from ..types import Expiry, Interrupt, RunnableConfig, VersionT
from .thread_lease import LocalThreadLease, LocalThreadLeases, Stream

if TYPE_CHECKING:
    from ..types import Chunk

ChannelVersions = dict[str, Any]
Version = Any  # whatever get_next_version returns: ordered, and one per super-step
PendingWrite = tuple[str, str, Any]  # task id, channel, value


class CheckpointMetadata(TypedDict, total=False):
    """Why a checkpoint exists, and the caller's own metadata beside it.

    ``source`` is input, loop, update or fork; ``step`` counts from -1;
    ``parents`` maps the namespaces of the calling graphs to their checkpoint ids.
    """

    source: str
    step: int
    parents: dict[str, str]
    run_id: str


class Checkpoint(TypedDict):
    """The state of one graph between two super-steps.

    ``clock`` is the newest version; a channel that had it may be gone. ``renamed`` are the old
    names of what the graph had renamed by then; ``former_names`` and ``new_channels`` are not
    stored, but what was found out of a checkpoint from before.
    """

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: dict[str, Version]
    versions_seen: dict[str, dict[str, Version]]
    updated_channels: list[str] | None
    clock: NotRequired[Version | None]
    renamed: NotRequired[list[str]]
    former_names: NotRequired[Any]
    new_channels: NotRequired[set[str]]


class CheckpointTuple(NamedTuple):
    """A stored checkpoint with its coordinates and the writes made on top of it.

    ``pending_writes`` are ordered by task path, task id and slot.
    """

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: Sequence[PendingWrite] | None = None


#: Config keys that say where and how to run; every other key is the caller's own.
COORDINATES = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "discard_pending",
        "rerun_unanswered",
        "on_interrupt_change",
        "on_unknown_key",
        "allow_unsaved",
    }
)


def select_metadata(config: RunnableConfig) -> dict[str, Any]:
    """Return what a checkpoint keeps of the caller's config: metadata, and plain own keys."""
    own = config.get("configurable") or {}
    kept = {name: without_nul(value) for name, value in (config.get("metadata") or {}).items()}
    for name, value in own.items():
        if name in COORDINATES or name in kept or name.startswith(("__", "langgraph_")):
            continue
        if value is None or isinstance(value, (str, int, float, bool)):
            kept[name] = without_nul(value)
    return kept


def without_nul(value: Any) -> Any:
    """Return a value of metadata; a text without the characters that no database takes."""
    return value.replace("\0", "") if isinstance(value, str) else value


@dataclass(slots=True)
class TaskWrites:
    """What one task wrote: channel writes, control writes, or both.

    Answers among them are those that the task started with, but for a task that the run itself
    answers, ``answered_by_run``: nobody else adds one to that.
    """

    task_id: str
    task_path: str
    writes: Sequence[tuple[str, Any]]
    answered_by_run: bool = False


@dataclass(frozen=True, slots=True)
class PendingInterrupt:
    """An open question and the exact task that asked it.

    An answer goes to ``task_id`` at (``checkpoint_ns``, ``checkpoint_id``): to position ``index``
    of that task's answers or, where the question was asked under a key, to ``key``. ``kind`` is
    ``breakpoint`` for a static breakpoint, which asks nothing but to go on. ``refusal`` says why
    the answer that was stored doesn't fit, where the question is asked again for that, ``expires``
    what becomes of it without an answer, ``terms`` how people are to be asked.
    """

    interrupt: Interrupt
    node: str
    task_id: str
    task_path: str
    checkpoint_ns: str
    checkpoint_id: str
    index: int = 0
    key: str | None = None
    kind: Literal["interrupt", "breakpoint"] = "interrupt"
    refusal: str = ""
    expires: Expiry | None = None
    terms: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run left the loop.

    ``interrupts`` are the open ones, in task-path order (``interrupted``), ``error`` is the
    exception (``failed``, ``out_of_steps``), ``next`` the nodes that would run next.
    """

    status: Literal["finished", "interrupted", "failed", "out_of_steps", "drained"]
    pending_interrupts: tuple[PendingInterrupt, ...] = ()
    next: tuple[str, ...] = ()
    error: BaseException | None = None


class AddedEntries(NamedTuple):
    """What a list or dict has more than at a version of its channel, with nothing else changed."""

    version: Version
    entries: list[Any] | dict[Any, Any]


class AppendedValue(NamedTuple):
    """A value that was stored by what was added: its newest version, and what it is by now."""

    version: Version
    value: list[Any] | dict[Any, Any]


@dataclass(slots=True)
class Commit:
    """All that one super-step makes durable: stored whole, or not at all.

    ``config`` addresses the checkpoint the tasks started from: ``writes`` belong to it, and
    ``checkpoint`` (None while tasks are still running or one has paused) becomes its child.
    ``new_versions`` holds the channels that this step changed, those that it emptied included.
    ``outcome`` is None while the run goes on. Only a commit of the root graph (empty
    ``checkpoint_ns``) speaks for the run. ``chunks`` are the stream's chunks of all this,
    where they are to be stored as well. ``lease`` is the run's on its thread, where it needs one.

    ``added`` says of lists and dicts among the new values that they have only grown, so that
    nothing but what was added needs a look; None where this is no step of a run. What a node
    changed in place in the rest isn't stored then. So at the end of the run, in the commit with an
    ``outcome``, all of them are compared with what is stored: those in ``added``, and as ``grown``
    those that aren't among the new values.
    """

    config: RunnableConfig
    writes: Sequence[TaskWrites] = ()
    checkpoint: Checkpoint | None = None
    metadata: CheckpointMetadata | None = None
    new_versions: dict[str, Version] | None = None
    outcome: Outcome | None = None
    chunks: Sequence[Chunk] = ()
    lease: LocalThreadLease | None = None
    added: Mapping[str, AddedEntries] | None = None
    grown: Mapping[str, AppendedValue] | None = None


# A version counts super-steps in its high half. The low half is random, so that two branches of
# one thread, forked at the same step, never give different values the same version.
_BRANCH_BITS = 32


def make_version(count: int, branch: int) -> Version:
    """Return the version of a channel after so many super-steps of a branch."""
    return count << _BRANCH_BITS | branch


class BaseCheckpointSaver(Generic[VersionT]):
    """Stores threads: subclass it and implement get_tuple, list, put, put_writes, delete_thread.

    ``commit`` is what the engine calls. Its default stores the writes and then the checkpoint;
    a saver that can store both at once overrides it. ``copy_thread``, ``delete_for_runs`` and
    ``prune`` are upkeep, which the engine never asks for.
    """

    #: What makes bytes of values, in savers that take one.
    serde: SerializerProtocol = JsonPlusSerializer()
    #: Looks after the thread that calls a node's sync function, for the time of the call; it is
    #: given the node's name. None where nothing is to be looked after.
    around_call: Callable[[str], AbstractContextManager[None]] | None = None
    #: Called on a driver's thread that has run tasks, when it has no more; None for no call.
    leave_thread: Callable[[], None] | None = None
    #: Whether all its calls in one run have to come from one thread: the one that drives the run.
    thread_bound: bool = True

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        if serde is not None:
            self.serde = maybe_add_typed_methods(serde)

    @property
    def config_specs(self) -> Sequence[Any]:
        """The fields of a config that the saver adds to those it addresses a checkpoint with."""
        return []

    def is_storage_error(self, error: BaseException) -> bool:
        """Return whether an error that a node raised says that this saver's storage is gone.

        It is then no failure of the node's: the run stops where it was last stored, as it does
        where the saver itself can't reach its storage.
        """
        return False

    def lease_thread(self, thread_id: str, stream: Stream) -> LocalThreadLease | None:
        """Take a thread for a run, which ``stream`` performs; None where the run needs no lease.

        Raises LeaseHeldError where another run has it. It looks at nothing that is stored.
        """
        leases = self.__dict__.get("_thread_leases")
        if leases is None:
            leases = self.__dict__.setdefault("_thread_leases", LocalThreadLeases(LocalThreadLease))
        lease: LocalThreadLease = leases.take(thread_id, stream)
        return lease

    def serves_threads(self) -> bool:
        """Return whether other threads can run graphs beside this one, on what it has stored.

        Not where this thread is in the middle of a transaction.
        """
        return True

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read the addressed checkpoint, or the newest of the namespace without an id."""
        raise NotImplementedError

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Read checkpoints, newest first."""
        raise NotImplementedError

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, Version],
    ) -> RunnableConfig:
        """Store a checkpoint as the child of the one ``config`` addresses."""
        raise NotImplementedError

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote on top of the addressed checkpoint.

        Control writes replace the earlier one of their kind; a task's channel writes are kept as
        first stored.
        """
        raise NotImplementedError

    def delete_thread(self, thread_id: str) -> None:
        """Remove everything stored of a thread."""
        raise NotImplementedError

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give another thread the whole history of one.

        Raises ThreadNotFound where there is nothing to copy, and ValueError where the target has a
        history: two in one thread would be one that never happened.
        """
        raise NotImplementedError

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints whose metadata has one of these as ``run_id``."""
        raise NotImplementedError

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove history of the threads.

        ``keep_latest`` keeps the newest checkpoint of each namespace with its writes and values,
        which is all that a run needs to go on and a question needs to be answered, and drops the
        namespaces of subgraph calls that are over. ``delete`` keeps nothing.
        Whoever forks from an older checkpoint at the same time may find values of it gone.
        """
        raise NotImplementedError

    def commit(self, commit: Commit) -> None:
        """Store what a super-step produced."""
        for task in commit.writes:
            path = (task.task_path,) if _takes_path(type(self).put_writes) else ()
            self.put_writes(commit.config, task.writes, task.task_id, *path)
        if commit.checkpoint is not None:
            self.put(
                commit.config, commit.checkpoint, commit.metadata or {}, commit.new_versions or {}
            )

    def commit_all(self, commits: Sequence[Commit]) -> None:
        """Store several commits of a run; a saver that can does so at once."""
        for commit in commits:
            self.commit(commit)

    def begin_commit(self, commit: Commit) -> Future[None] | None:
        """Begin to store a commit on another thread, for durability "async".

        What can't be stored is refused at once, and values are taken as they are now. The future
        says whether the commit was stored. None where nothing is begun: ``commit`` stores it.
        """
        return None

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """Read the addressed checkpoint without its writes."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    def get_next_version(self, current: Version | None, channel: None) -> Version:
        """Return a version greater than ``current``."""
        return make_version(((current or 0) >> _BRANCH_BITS) + 1, getrandbits(_BRANCH_BITS))

    # A saver without an event loop of its own answers at once. One that blocks overrides acall, and
    # the two that every super-step and every load take.

    @property
    def answers_at_once(self) -> bool:
        """Whether the async forms that runs use are the sync ones, which none of them awaits."""
        return _has_sync_forms_only(type(self))  # type: ignore[arg-type]

    async def acall(self, function: Callable[..., Any], *args: Any) -> Any:
        """Make a call of this saver's, for the async forms and within an async run.

        A saver whose connections belong to a thread makes it on that thread.
        """
        return function(*args)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Like get_tuple."""
        return self.get_tuple(config)

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """Like get."""
        found: Checkpoint | None = await self.acall(self.get, config)
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Like list."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await self.acall(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, Version],
    ) -> RunnableConfig:
        """Like put."""
        stored: RunnableConfig = await self.acall(
            self.put, config, checkpoint, metadata, new_versions
        )
        return stored

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Like put_writes."""
        await self.acall(self.put_writes, config, writes, task_id, task_path)

    async def acommit(self, commit: Commit) -> None:
        """Like commit, by the saver's own async forms where it has them."""
        own = type(self)
        forms = (own.aput, own.aput_writes)
        if forms == (BaseCheckpointSaver.aput, BaseCheckpointSaver.aput_writes):
            self.commit(commit)
            return
        for task in commit.writes:
            path = (task.task_path,) if _takes_path(own.aput_writes) else ()
            await self.aput_writes(commit.config, task.writes, task.task_id, *path)
        if commit.checkpoint is not None:
            await self.aput(
                commit.config, commit.checkpoint, commit.metadata or {}, commit.new_versions or {}
            )

    async def acommit_all(self, commits: Sequence[Commit]) -> None:
        """Like commit_all."""
        for commit in commits:
            await self.acommit(commit)

    async def adelete_thread(self, thread_id: str) -> None:
        """Like delete_thread."""
        await self.acall(self.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Like copy_thread."""
        await self.acall(self.copy_thread, source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Like delete_for_runs."""
        await self.acall(self.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Like prune."""
        await self.acall(partial(self.prune, thread_ids, strategy=strategy))


@cache
def _has_sync_forms_only(kind: type[BaseCheckpointSaver[Any]]) -> bool:
    """Return whether a saver's class has none of the async forms that runs use of its own."""
    forms = ("acall", "aget_tuple", "alist", "acommit", "acommit_all", "aput", "aput_writes")
    return all(getattr(kind, form) is getattr(BaseCheckpointSaver, form) for form in forms)


@cache
def _takes_path(put_writes: Callable[..., Any]) -> bool:
    """Return whether a saver's method takes a ``task_path``, which older savers' doesn't."""
    parameters = signature(put_writes).parameters.values()
    return any(one.name == "task_path" or one.kind == one.VAR_POSITIONAL for one in parameters)


#: What a graph is compiled with: True keeps one history per thread where it is called by another
#: graph, False never stores anything.
Checkpointer = BaseCheckpointSaver | bool | None
