"""A buffer of stream chunks that are stored in the commit of their task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..types import Chunk


class ChunkBuffer:
    """The stream chunks of running tasks, by task id.

    A buffer belongs to one attempt to execute the run. If the attempt fails before the chunks are
    stored, the chunks are lost. Nodes may write from several OS threads. The argument ``keep`` is a
    function that copies written data, because the node may change the data later.
    """

    __slots__ = ("_chunks", "_keep")

    def __init__(self, keep: Callable[[Any], Any] | None = None) -> None:
        self._keep = keep
        self._chunks: dict[str, list[Chunk]] = {}

    def write(self, task_id: str, ns: tuple[str, ...], data: Any) -> None:
        """Add data that a node has emitted with its stream writer."""
        self.add(task_id, (ns, "custom", data if self._keep is None else self._keep(data)))

    def add(self, task_id: str, chunk: Chunk) -> None:
        """Add a chunk of a task."""
        self._chunks.setdefault(task_id, []).append(chunk)

    def forward(self, task_id: str, chunk: Chunk) -> None:
        """Add a copy of a subgraph's chunk, because the subgraph may change the data later."""
        ns, mode, data = chunk
        if mode != "custom" and self._keep is not None:
            data = self._keep(data)
        self.add(task_id, (ns, mode, data))

    def take(self, task_id: str) -> list[Chunk]:
        """Remove and return the chunks of a task."""
        return self._chunks.pop(task_id, [])

    def move_chunks(self, task_id: str, to: str) -> None:
        """Move the chunks of a task to the calling task ``to``, which stores them."""
        for chunk in self.take(task_id):
            self.add(to, chunk)
