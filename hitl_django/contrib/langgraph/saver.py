"""The base class of LangGraph savers that store their data with a saver of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, get_serializable_checkpoint_metadata
from langgraph.checkpoint.base import CheckpointTuple as ForeignTuple
from langgraph.checkpoint.base import id as their_ids

from hitl_django.engine.ids import read_time
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver as OurSaver
from hitl_django.engine.savers.checkpoint import (
    CheckpointTuple,
    Commit,
    PendingWrite,
    TaskWrites,
)
from hitl_django.engine.serde import adopt_model
from hitl_django.engine.types import RunnableConfig

from .conversions import (
    MEMORY,
    convert_checkpoint,
    convert_to_ours,
    convert_to_theirs,
    drop_snapshot_counters,
)
from .stored_types import find_listed_classes

_COORDINATES = ("thread_id", "checkpoint_ns", "checkpoint_id")


class BridgedSaver(BaseCheckpointSaver[int]):
    """LangGraph saver that stores its data with a saver of the engine.

    ``_perform`` calls the engine's saver. ``_aperform`` is the async form of ``_perform``.
    ``_locate`` converts a config of LangGraph to a config of the engine's saver, and ``_name`` does
    the reverse.
    """

    #: Keys of the run's ``configurable`` that LangGraph would add to the metadata of each
    #: checkpoint.
    private: frozenset[str] = frozenset()

    def __init__(self, saver: OurSaver) -> None:
        super().__init__()
        self._saver = saver

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Any) -> BridgedSaver:
        """Allow the state to contain the classes in ``extra_allowlist``, and return this saver."""
        for cls in find_listed_classes(extra_allowlist):
            adopt_model(cls)
        return self

    # Sync and async methods differ only in how they call the engine's saver.

    def get_tuple(self, config: Any) -> ForeignTuple | None:
        return self._convert_tuple(self._perform(self._load, config))

    def list(
        self,
        config: Any,
        *,
        filter: Any = None,
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[ForeignTuple]:
        found = self._find(config, filter, before, limit)
        while (one := self._convert_tuple(self._perform(next, found, None))) is not None:
            yield one

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self._perform(self._put, config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        self._perform(self._put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: Any) -> ForeignTuple | None:
        return self._convert_tuple(await self._aperform(self._load, config))

    async def alist(
        self,
        config: Any,
        *,
        filter: Any = None,
        before: Any = None,
        limit: int | None = None,
    ) -> AsyncIterator[ForeignTuple]:
        found = self._find(config, filter, before, limit)
        while (one := self._convert_tuple(await self._aperform(next, found, None))) is not None:
            yield one

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return await self._aperform(self._put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        await self._aperform(self._put_writes, config, writes, task_id, task_path)

    def _perform(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the engine's saver, on the OS thread that this saver requires."""
        return function(*args)

    async def _aperform(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._saver.acall(function, *args)

    def _locate(self, config: Any) -> RunnableConfig:
        """Convert a config of the graph to a config of the engine's saver."""
        named: Mapping[str, Any] = config["configurable"]
        return {"configurable": {name: named[name] for name in _COORDINATES if name in named}}

    def _name(self, config: RunnableConfig) -> Any:
        """Convert a config of the engine's saver to a config of the graph."""
        return config

    def _load(self, config: Any) -> CheckpointTuple | None:
        return self._saver.get_tuple(self._locate(config))

    def _find(self, config: Any, filter: Any, before: Any, limit: int | None) -> Iterator[Any]:
        ours = None if config is None else self._locate(config)
        earlier = None if before is None else self._locate(before)
        return self._saver.list(ours, filter=filter, before=earlier, limit=limit)

    def _put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        ours = self._locate(config)
        stored_metadata = {
            name: value
            for name, value in get_serializable_checkpoint_metadata(config, metadata).items()
            if name not in self.private
        }
        self._commit(
            Commit(
                ours,
                checkpoint=convert_checkpoint(checkpoint, convert_to_ours),
                metadata=drop_snapshot_counters(stored_metadata, checkpoint["channel_values"]),
                new_versions=new_versions,
            )
        )
        stored = {"checkpoint_ns": "", **ours["configurable"], "checkpoint_id": checkpoint["id"]}
        return self._name({"configurable": stored})

    def _put_writes(self, config: Any, writes: Sequence[Any], task_id: str, task_path: str) -> None:
        self._commit(self._build_commit(config, writes, task_id, task_path))

    def _build_commit(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str
    ) -> Commit:
        converted = [(name, convert_to_ours(name, value)) for name, value in writes]
        task = self._build_writes(task_id, task_path, converted)
        return Commit(self._locate(config), writes=[task])

    def _build_writes(
        self, task_id: str, task_path: str, writes: Sequence[tuple[str, Any]]
    ) -> TaskWrites:
        return TaskWrites(task_id, task_path, writes)

    def _commit(self, commit: Commit) -> None:
        self._saver.commit(commit)

    def _convert_tuple(self, found: CheckpointTuple | None) -> Any:
        if found is None:
            return None
        _sort_theirs_after(found.checkpoint["id"])
        return ForeignTuple(
            self._name(found.config),
            convert_checkpoint(found.checkpoint, convert_to_theirs),
            found.metadata,  # type: ignore[arg-type]
            None if found.parent_config is None else self._name(found.parent_config),
            [
                (task, name, convert_to_theirs(name, value))
                for task, name, value in self._list_writes(found)
            ],
        )

    def _list_writes(self, found: CheckpointTuple) -> Sequence[PendingWrite]:
        """Return the pending writes that LangGraph gets for a checkpoint."""
        return [write for write in found.pending_writes or () if write[1] not in MEMORY]


def _sort_theirs_after(checkpoint_id: str) -> None:
    """Let later ids generated by LangGraph sort after ``checkpoint_id``.

    The clock of the process that created ``checkpoint_id`` may be ahead. LangGraph considers the
    greatest id the newest, and would otherwise ignore its next checkpoint.
    """
    clock: Any = their_ids
    made = read_time(checkpoint_id)
    if (clock._last_v6_timestamp or 0) < made:
        clock._last_v6_timestamp = made
