"""A saver for a graph of LangGraph that a node calls: its state stands with that of the node's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from hitl_django.engine.constants import NS_SEP
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver as OurSaver
from hitl_django.engine.types import RunnableConfig

from .conversions import convert_checkpoint, convert_to_ours, convert_to_theirs

#: Makes a call of our saver's where such calls may be made.
Perform = Callable[..., Any]
APerform = Callable[..., Awaitable[Any]]


class NodeSaver(BaseCheckpointSaver[Any]):
    """Stores what a foreign graph does under the namespace of the task that calls it.

    The graph believes that it is alone on its thread; its own namespaces go below the task's.
    """

    def __init__(self, saver: OurSaver, ns: str, perform: Perform, aperform: APerform) -> None:
        super().__init__()
        self._saver, self._ns = saver, ns
        self._perform, self._aperform = perform, aperform

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Returns a version as our saver has them."""
        return self._saver.get_next_version(current, channel)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """Reads the addressed checkpoint."""
        return self._convert_tuple(self._perform(self._saver.get_tuple, self._locate(config)))

    def list(
        self,
        config: Any,
        *,
        filter: Any = None,
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yields the checkpoints of a namespace, newest first."""
        yield from self._perform(self._list, config, filter, before, limit)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Stores a checkpoint."""
        stored = self._perform(
            self._saver.put,
            self._locate(config), convert_checkpoint(checkpoint, convert_to_ours),
            metadata, new_versions,
        )  # fmt: skip
        return self._name(stored)

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote."""
        converted = [(name, convert_to_ours(name, value)) for name, value in writes]
        ours = self._locate(config)
        self._perform(self._saver.put_writes, ours, converted, task_id, task_path)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """Like get_tuple."""
        found = await self._aperform(self._saver.get_tuple, self._locate(config))
        return self._convert_tuple(found)

    async def alist(
        self,
        config: Any,
        *,
        filter: Any = None,
        before: Any = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Like list."""
        for found in await self._aperform(self._list, config, filter, before, limit):
            yield found

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Like put."""
        stored = await self._aperform(
            self._saver.put,
            self._locate(config), convert_checkpoint(checkpoint, convert_to_ours),
            metadata, new_versions,
        )  # fmt: skip
        return self._name(stored)

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Like put_writes."""
        converted = [(name, convert_to_ours(name, value)) for name, value in writes]
        ours = self._locate(config)
        await self._aperform(self._saver.put_writes, ours, converted, task_id, task_path)

    def _list(self, config: Any, filter: Any, before: Any, limit: int | None) -> Any:
        found = self._saver.list(self._locate(config), filter=filter, before=before, limit=limit)
        return [self._convert_tuple(one) for one in found]

    def _locate(self, config: Any) -> RunnableConfig:
        """Returns the coordinates of the graph's own config with us."""
        named = config["configurable"]
        ref = {"thread_id": named["thread_id"], "checkpoint_ns": self._ns}
        if ns := named.get("checkpoint_ns"):
            ref["checkpoint_ns"] = f"{self._ns}{NS_SEP}{ns}"
        if checkpoint_id := named.get("checkpoint_id"):
            ref["checkpoint_id"] = checkpoint_id
        return {"configurable": ref}

    def _name(self, config: RunnableConfig) -> Any:
        """Returns coordinates with us as the graph itself names them."""
        ref = config["configurable"]
        ns = ref["checkpoint_ns"].removeprefix(self._ns).removeprefix(NS_SEP)
        return {"configurable": {**ref, "checkpoint_ns": ns}}

    def _convert_tuple(self, found: Any) -> CheckpointTuple | None:
        if found is None:
            return None
        return CheckpointTuple(
            self._name(found.config),
            convert_checkpoint(found.checkpoint, convert_to_theirs),
            found.metadata,
            None if found.parent_config is None else self._name(found.parent_config),
            [
                (task, name, convert_to_theirs(name, value))
                for task, name, value in found.pending_writes
            ],
        )
