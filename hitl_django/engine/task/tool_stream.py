"""The stream mode ``tools``: where the calls of tools begin and end, and what they say between."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..constants import TAG_NOSTREAM
from ..types import Chunk

Namespace = tuple[str, ...]


class ToolStream:
    """Emits what the tools of a run do as stream chunks of the mode ``tools``.

    ``emit`` takes the chunks; without ``subgraphs`` only those at ``ns``, the run's own namespace.
    ``above`` is that of the run above, which is told of the same calls.
    """

    def __init__(
        self,
        emit: Callable[[Chunk], None],
        ns: Namespace,
        subgraphs: bool,
        above: ToolStream | None = None,
    ) -> None:
        self._emit, self._ns, self.subgraphs, self._above = emit, ns, subgraphs, above
        self._open: set[tuple[Namespace, str]] = set()

    def drop_narrow(self) -> ToolStream | None:
        """Return the streams of this one and those above that are about subgraphs, too."""
        above = None if self._above is None else self._above.drop_narrow()
        if not self.subgraphs:
            return above
        wide = copy.copy(self)
        wide._above = above
        return wide

    def begin(
        self, ns: Namespace, call_id: str, name: str, given: Any, tags: Sequence[str]
    ) -> ToolCallChunks:
        """Emit that a call begins, here and above; returns what emits the rest."""
        told = [stream for stream in self._lineage() if stream.open(ns, call_id, name, given, tags)]
        return ToolCallChunks(told, ns, call_id)

    def open(self, ns: Namespace, call_id: str, name: str, given: Any, tags: Sequence[str]) -> bool:
        """Emit that a call begins; returns whether somebody is to know of it."""
        if TAG_NOSTREAM in tags or (ns != self._ns and not self.subgraphs):
            return False
        self._open.add((ns, call_id))
        begins = {"event": "tool-started", "tool_call_id": call_id, "tool_name": name}
        self._say(ns, begins if given is None else {**begins, "input": given})
        return True

    def emit_delta(self, ns: Namespace, call_id: str | None, delta: Any) -> None:
        """Emit a part of the output of a call that has begun."""
        for stream in self._lineage():
            if (ns, call_id) in stream._open:
                said = {"event": "tool-output-delta", "tool_call_id": call_id, "delta": delta}
                stream._say(ns, said)

    def close(self, ns: Namespace, call_id: str, ended: dict[str, Any]) -> None:
        """Emit how a call has ended."""
        self._open.discard((ns, call_id))
        self._say(ns, ended)

    def _lineage(self) -> Iterator[ToolStream]:
        stream: ToolStream | None = self
        while stream is not None:
            yield stream
            stream = stream._above

    def _say(self, ns: Namespace, data: dict[str, Any]) -> None:
        self._emit((ns, "tools", data))


class ToolCallChunks:
    """Emits how one call of a tool ends; of one that pauses nothing more is emitted."""

    __slots__ = ("_call_id", "_ns", "_streams")

    def __init__(self, streams: Sequence[ToolStream], ns: Namespace, call_id: str) -> None:
        self._streams, self._ns, self._call_id = streams, ns, call_id

    def finish(self, output: Any) -> None:
        """Emit what the call has returned."""
        self._end({"event": "tool-finished", "tool_call_id": self._call_id, "output": output})

    def fail(self, error: BaseException) -> None:
        """Emit what the call has raised."""
        self._end({"event": "tool-error", "tool_call_id": self._call_id, "message": str(error)})

    def _end(self, data: dict[str, Any]) -> None:
        for stream in self._streams:
            stream.close(self._ns, self._call_id, data)
