"""LangGraph's savers, for engine graphs that run in a LangGraph node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from hitl_django.engine import ids
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, CheckpointTuple
from hitl_django.engine.types import RunnableConfig

from .conversions import MEMORY, convert_checkpoint, convert_to_ours, convert_to_theirs

_MARK = "#"


class ParentSaver(BaseCheckpointSaver[Any]):
    """Saver that stores an engine graph with the checkpointer of the calling LangGraph graph.

    The engine stores a task's memory, such as the results of ``once``, again after each change.
    LangGraph's savers ignore a later write with the same task id. Each write of a task's memory is
    therefore stored under a new id, which consists of the task id and a sortable part.
    """

    def __init__(self, saver: Any) -> None:
        self._saver = saver

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return _convert_tuple(self._saver.get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        for found in self._saver.list(config, filter=filter, before=before, limit=limit):
            yield _convert_found(found)

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: dict[str, Any]
    ) -> RunnableConfig:
        converted = convert_checkpoint(checkpoint, convert_to_theirs)
        return self._saver.put(config, converted, metadata, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        for owner, part in _divide_writes(writes, task_id):
            self._saver.put_writes(config, part, owner, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return _convert_tuple(await self._saver.aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        async for found in self._saver.alist(config, filter=filter, before=before, limit=limit):
            yield _convert_found(found)

    async def aput(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: dict[str, Any]
    ) -> RunnableConfig:
        converted = convert_checkpoint(checkpoint, convert_to_theirs)
        return await self._saver.aput(config, converted, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        for owner, part in _divide_writes(writes, task_id):
            await self._saver.aput_writes(config, part, owner, task_path)


def _divide_writes(
    writes: Sequence[tuple[str, Any]], task_id: str
) -> Iterator[tuple[str, Sequence[tuple[str, Any]]]]:
    """Yield the writes of a task in two groups, each with the id under which the group is stored.

    One group contains the task's memory, such as results of ``once``. The other group contains all
    other writes.
    """
    converted = [(name, convert_to_theirs(name, value)) for name, value in writes]
    if kept := [write for write in converted if write[0] in MEMORY]:
        yield f"{task_id}{_MARK}{ids.new_uuid6()}", kept
    if others := [write for write in converted if write[0] not in MEMORY]:
        yield task_id, others


def _convert_tuple(found: Any) -> CheckpointTuple | None:
    return None if found is None else _convert_found(found)


def _convert_found(found: Any) -> CheckpointTuple:
    return CheckpointTuple(
        found.config,
        convert_checkpoint(found.checkpoint, convert_to_ours),
        found.metadata,
        found.parent_config,
        [
            (owner.partition(_MARK)[0], name, convert_to_ours(name, value))
            for owner, name, value in found.pending_writes or ()
        ],
    )
