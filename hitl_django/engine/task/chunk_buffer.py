"""Chunks that are to be stored: held back until the commit of what they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..types import Chunk


class ChunkBuffer:
    """The chunks of tasks under way, by task.

    It belongs to one attempt: of one that fails, or that nobody comes to store, no chunk is kept.
    Nodes may write from several threads. ``keep`` makes of what a node writes what is kept of it:
    the node may go on to change it.
    """

    __slots__ = ("_chunks", "_keep")

    def __init__(self, keep: Callable[[Any], Any] | None = None) -> None:
        self._keep = keep
        self._chunks: dict[str, list[Chunk]] = {}

    def write(self, task_id: str, ns: tuple[str, ...], data: Any) -> None:
        """Add what a node writes to the stream."""
        self.add(task_id, (ns, "custom", data if self._keep is None else self._keep(data)))

    def add(self, task_id: str, chunk: Chunk) -> None:
        """Add a chunk of a task."""
        self._chunks.setdefault(task_id, []).append(chunk)

    def forward(self, task_id: str, chunk: Chunk) -> None:
        """Add a chunk of a graph further down, which may go on to change it."""
        ns, mode, data = chunk
        if mode != "custom" and self._keep is not None:
            data = self._keep(data)
        self.add(task_id, (ns, mode, data))

    def take(self, task_id: str) -> list[Chunk]:
        """Remove and return the chunks of a task since it began."""
        return self._chunks.pop(task_id, [])

    def move_chunks(self, task_id: str, to: str) -> None:
        """Make the chunks of a task another's: those of its caller, which stores them."""
        for chunk in self.take(task_id):
            self.add(to, chunk)
