"""The interface of checkpoint savers, and the data that savers store for a thread."""

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
# A version as returned by get_next_version: versions are ordered, and each super-step has one.
Version = Any
PendingWrite = tuple[str, str, Any]  # task id, channel, value


class CheckpointMetadata(TypedDict, total=False):
    """The origin of a checkpoint, and the metadata given by the caller.

    ``source`` is input, loop, update or fork. ``step`` counts from -1. ``parents`` maps the
    namespaces of the calling graphs to their checkpoint ids.
    """

    source: str
    step: int
    parents: dict[str, str]
    run_id: str


class Checkpoint(TypedDict):
    """The state of one graph between two super-steps.

    ``clock`` is the newest channel version, even if the channel with this version was removed.
    ``renamed`` are the former names that the graph knew when the checkpoint was stored.
    ``former_names`` and ``new_channels`` are not stored: they are computed when a checkpoint with
    former names is read.
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
    """A stored checkpoint with its config and its pending writes.

    ``pending_writes`` are ordered by task path, task id and slot. Slot 0 contains the channel
    writes of a task. Each kind of control write has a slot in ``CONTROL_SLOTS``.
    """

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: Sequence[PendingWrite] | None = None


#: Config keys that control a run. All other keys are the caller's metadata.
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
    """Return the part of a config that is stored as metadata of a checkpoint.

    This includes the config's metadata, and texts, numbers, booleans and None in ``configurable``.
    """
    own = config.get("configurable") or {}
    kept = {name: without_nul(value) for name, value in (config.get("metadata") or {}).items()}
    for name, value in own.items():
        if name in COORDINATES or name in kept or name.startswith(("__", "langgraph_")):
            continue
        if value is None or isinstance(value, (str, int, float, bool)):
            kept[name] = without_nul(value)
    return kept


def without_nul(value: Any) -> Any:
    """Return a metadata value without NUL characters, which some databases can't store."""
    return value.replace("\0", "") if isinstance(value, str) else value


@dataclass(slots=True)
class TaskWrites:
    """The channel writes and control writes of one task.

    Control writes aren't applied to channels. Examples are errors, interrupts and resume values.

    Resume values in ``writes`` are those with which the task started. After the start, a reviewer
    may have added a resume value to the stored ones. A saver may therefore keep the stored resume
    values and ignore those in ``writes``. With ``answered_by_run``, the run itself has given the
    resume values in ``writes``, and they replace the stored resume values.
    """

    task_id: str
    task_path: str
    writes: Sequence[tuple[str, Any]]
    answered_by_run: bool = False


@dataclass(frozen=True, slots=True)
class PendingInterrupt:
    """A pending interrupt, and the task that created it.

    A resume value belongs to the task ``task_id`` at the checkpoint (``checkpoint_ns``,
    ``checkpoint_id``). Within the task, it belongs to the position ``index`` of the resume values,
    or to ``key`` if the interrupt has a key. ``kind`` is ``breakpoint`` for a static breakpoint,
    which needs a decision but no resume value. ``refusal`` is the reason why the previous resume
    value was rejected. ``expires`` is the time limit and its effect. ``review_options`` are the
    options of ``review()``. ``payload_formats`` are the formats of values in the payload that were
    converted to text, by JSON pointer.
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
    review_options: Any = None
    payload_formats: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run that ended or paused.

    ``pending_interrupts`` are given if the status is ``interrupted``, sorted by task path.
    ``error`` is the exception if the status is ``failed`` or ``out_of_steps``. ``next`` are the
    nodes that would run next.
    """

    status: Literal["finished", "interrupted", "failed", "out_of_steps", "drained"]
    pending_interrupts: tuple[PendingInterrupt, ...] = ()
    next: tuple[str, ...] = ()
    error: BaseException | None = None


class AddedEntries(NamedTuple):
    """The entries added to a list or dict since an earlier channel version.

    All earlier entries must be unchanged.
    """

    version: Version
    entries: list[Any] | dict[Any, Any]


class AppendedValue(NamedTuple):
    """The newest version and value of a channel for which only added entries were stored."""

    version: Version
    value: list[Any] | dict[Any, Any]


@dataclass(slots=True)
class Commit:
    """The durable result of one super-step, which is stored atomically.

    ``config`` selects the checkpoint from which the tasks started. ``writes`` belong to that
    checkpoint, and ``checkpoint`` becomes its child. ``checkpoint`` is None while tasks are running
    or if a task has paused. ``new_versions`` contains the channels changed by this super-step,
    including emptied channels. ``outcome`` is None while the run continues. Only commits of the
    root graph (empty ``checkpoint_ns``) contain the outcome of the run. ``chunks`` are the stream
    chunks to store. ``lease`` is the run's lease on its thread, if the run needs a lease.

    ``added`` contains the new entries of lists and dicts that have only grown, so that the saver
    can store only these entries. ``added`` is None if the commit is not a super-step of a run. If a
    node changes existing entries in place, these changes are not stored with the super-step.
    Therefore, when the saver stores the commit with the ``outcome``, it compares the whole values
    of these lists and dicts with the stored values. ``grown`` contains further lists and dicts to
    compare: this commit doesn't change them, but earlier commits have stored only added entries.
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


# The high half of a version counts super-steps. The low half is random, so that two branches forked
# at the same step never use the same version for different values.
_BRANCH_BITS = 32


def make_version(count: int, branch: int) -> Version:
    """Return the channel version after ``count`` super-steps.

    ``branch`` distinguishes the versions of forks that have the same ``count``.
    """
    return count << _BRANCH_BITS | branch


class BaseCheckpointSaver(Generic[VersionT]):
    """Base class of checkpoint savers.

    Subclasses implement get_tuple, list, put, put_writes and delete_thread. The engine calls
    ``commit``, which by default stores the writes and then the checkpoint. A saver that can store
    both atomically overrides ``commit``. The engine never calls the maintenance methods
    ``copy_thread``, ``delete_for_runs`` and ``prune``.
    """

    #: Encodes values in savers with a configurable serializer.
    serde: SerializerProtocol = JsonPlusSerializer()
    #: Returns a context manager for the OS thread during a node's sync call, given the node's name.
    #: None if the saver needs no cleanup.
    around_call: Callable[[str], AbstractContextManager[None]] | None = None
    #: Called on a driver's OS thread after the thread's last task; None for no call.
    leave_thread: Callable[[], None] | None = None
    #: Whether all saver calls of one run must come from the OS thread that drives the run.
    thread_bound: bool = True

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        if serde is not None:
            self.serde = maybe_add_typed_methods(serde)

    @property
    def config_specs(self) -> Sequence[Any]:
        """Config fields that the saver accepts besides thread id, namespace and checkpoint id."""
        return []

    def is_storage_error(self, error: BaseException) -> bool:
        """Return whether an error raised by a node means that this saver's storage is unavailable.

        Such an error is not a failure of the node. The run stops at its last stored state, as if
        the saver itself couldn't reach the storage.
        """
        return False

    def lease_thread(self, thread_id: str, stream: Stream) -> LocalThreadLease | None:
        """Lease a thread for the run whose generator is ``stream``.

        Return None if no lease is needed. This method doesn't access the storage.

        Raises:
            LeaseTakenError: another run has the lease.
        """
        leases = self.__dict__.get("_thread_leases")
        if leases is None:
            leases = self.__dict__.setdefault("_thread_leases", LocalThreadLeases(LocalThreadLease))
        lease: LocalThreadLease = leases.take(thread_id, stream)
        return lease

    def serves_threads(self) -> bool:
        """Return whether other OS threads can read the data that this OS thread has stored.

        The result is false if this OS thread has an open transaction.
        """
        return True

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` selects, by default the newest of the namespace.

        Return None if the checkpoint doesn't exist.
        """
        raise NotImplementedError

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, newest first.

        If ``config`` is None, yield those of all threads. ``filter`` are metadata that the
        checkpoints must have. ``before`` is the config of a checkpoint: only older ones are
        yielded.
        """
        raise NotImplementedError

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, Version],
    ) -> RunnableConfig:
        """Store a checkpoint as a child of the checkpoint that ``config`` selects.

        Return the config of the new checkpoint.
        """
        raise NotImplementedError

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task as pending writes of the checkpoint that ``config`` selects.

        A control write, such as an error or an interrupt, replaces the task's earlier control write
        with the same name. The channel writes of a task are never replaced.
        """
        raise NotImplementedError

    def delete_thread(self, thread_id: str) -> None:
        """Delete all data of a thread."""
        raise NotImplementedError

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the whole history of a thread to another thread.

        Raises:
            ThreadNotFound: the source thread has no history.
            ValueError: the target thread already has a history.
        """
        raise NotImplementedError

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints whose metadata contains one of the ids as ``run_id``."""
        raise NotImplementedError

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the history of threads.

        ``delete`` deletes all checkpoints. ``keep_latest`` keeps the newest checkpoint of each
        namespace with its writes and values, and deletes the namespaces of finished subgraph calls.
        Afterwards, runs can still resume and pending interrupts can be resolved. A concurrent fork
        from an older checkpoint may fail because values were deleted.
        """
        raise NotImplementedError

    def commit(self, commit: Commit) -> None:
        """Store a commit, i.e. the result of a super-step."""
        for task in commit.writes:
            path = (task.task_path,) if _takes_path(type(self).put_writes) else ()
            self.put_writes(commit.config, task.writes, task.task_id, *path)
        if commit.checkpoint is not None:
            self.put(
                commit.config, commit.checkpoint, commit.metadata or {}, commit.new_versions or {}
            )

    def commit_all(self, commits: Sequence[Commit]) -> None:
        """Store several commits of a run, atomically if the saver supports it."""
        for commit in commits:
            self.commit(commit)

    def begin_commit(self, commit: Commit) -> Future[None] | None:
        """Start to store a commit on another OS thread, for the durability "async".

        Values are copied immediately, and errors of values that can't be stored are raised
        immediately. The future completes when the commit is stored. The result None means that
        storing has not started and the caller must call ``commit``.
        """
        return None

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """Return the checkpoint that ``config`` selects, or None.

        Its pending writes aren't read.
        """
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    def get_next_version(self, current: Version | None, channel: None) -> Version:
        """Return a channel version greater than ``current``. ``channel`` is always None."""
        return make_version(((current or 0) >> _BRANCH_BITS) + 1, getrandbits(_BRANCH_BITS))

    # By default, async methods call the sync methods directly. A saver that blocks overrides acall.
    # It also overrides aget_tuple and acommit, which are called most often.

    @property
    def answers_at_once(self) -> bool:
        """Whether each async method of the saver only calls the corresponding sync method.

        Such async methods never yield to the event loop.
        """
        return _has_sync_forms_only(type(self))  # type: ignore[arg-type]

    async def acall(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of this saver for an async method or an async run.

        If the saver's connections belong to an OS thread, the function is called on that OS thread.
        """
        return function(*args)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async variant of get_tuple."""
        return self.get_tuple(config)

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """Async variant of get."""
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
        """Async variant of list."""
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
        """Async variant of put."""
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
        """Async variant of put_writes."""
        await self.acall(self.put_writes, config, writes, task_id, task_path)

    async def acommit(self, commit: Commit) -> None:
        """Store a commit. By default, call aput_writes and aput."""
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
        """Async variant of commit_all."""
        for commit in commits:
            await self.acommit(commit)

    async def adelete_thread(self, thread_id: str) -> None:
        """Async variant of delete_thread."""
        await self.acall(self.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Async variant of copy_thread."""
        await self.acall(self.copy_thread, source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Async variant of delete_for_runs."""
        await self.acall(self.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Async variant of prune."""
        await self.acall(partial(self.prune, thread_ids, strategy=strategy))


@cache
def _has_sync_forms_only(kind: type[BaseCheckpointSaver[Any]]) -> bool:
    """Return whether a saver class overrides none of the async methods used by the engine."""
    forms = ("acall", "aget_tuple", "alist", "acommit", "acommit_all", "aput", "aput_writes")
    return all(getattr(kind, form) is getattr(BaseCheckpointSaver, form) for form in forms)


@cache
def _takes_path(put_writes: Callable[..., Any]) -> bool:
    """Return whether ``put_writes`` has the parameter ``task_path``, which older savers lack."""
    parameters = signature(put_writes).parameters.values()
    return any(one.name == "task_path" or one.kind == one.VAR_POSITIONAL for one in parameters)


#: The checkpointer of a compiled graph. With True, a subgraph stores one history per thread. With
#: False, a graph never stores anything.
Checkpointer = BaseCheckpointSaver | bool | None
