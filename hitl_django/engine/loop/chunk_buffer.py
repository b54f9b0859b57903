"""What a run tells that is to be stored: held back until the commit of what it tells of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..task.context import TaskContext
    from .loop import Loop
    from .stream_modes import Chunk


class Notes:
    """What tasks under way have told, by task.

    It belongs to one attempt: an attempt that fails, or that nobody comes to store, told nothing.
    Nodes may write from several threads. ``keep`` makes of what a node writes what is kept of it:
    the node may go on to change it.
    """

    __slots__ = ("_keep", "_told")

    def __init__(self, keep: Callable[[Any], Any] | None = None) -> None:
        self._keep = keep
        self._told: dict[str, list[Chunk]] = {}

    def write(self, task_id: str, ns: tuple[str, ...], data: Any) -> None:
        """Notes what a node writes to the stream."""
        self.add(task_id, (ns, "custom", data if self._keep is None else self._keep(data)))

    def add(self, task_id: str, chunk: Chunk) -> None:
        """Notes what a task tells."""
        self._told.setdefault(task_id, []).append(chunk)

    def forward(self, task_id: str, chunk: Chunk) -> None:
        """Notes what a graph further down tells, which may go on to change it."""
        ns, mode, data = chunk
        if mode != "custom" and self._keep is not None:
            data = self._keep(data)
        self.add(task_id, (ns, mode, data))

    def take(self, task_id: str) -> list[Chunk]:
        """Returns what a task has told since it began, and forgets it."""
        return self._told.pop(task_id, [])

    def hand_on(self, task_id: str, to: str) -> None:
        """Makes what a task has told another's: that of its caller, which stores it."""
        for chunk in self.take(task_id):
            self.add(to, chunk)


def keeper(loop: Loop, parent: TaskContext) -> Callable[[Chunk], None]:
    """Returns what takes the chunks that a graph tells to the task which calls it.

    Where they are stored they go with the graph's own commits, if it makes any.
    """
    notes = parent.run.notes
    if notes is None:
        return parent.run.emit
    if loop.saver is not None:
        return loop.ledger.told.append
    return partial(notes.forward, parent.task.id)
