"""The stream mode ``tools``: where the calls of tools begin and end, and what they say between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..constants import TAG_NOSTREAM
from ..types import Chunk

Namespace = tuple[str, ...]


class ToolStream:
    """Emits what the tools of a run do as stream chunks of the mode ``tools``.

    ``emit`` takes the chunks; without ``subgraphs`` only those at ``ns``, the run's own namespace.
    """

    def __init__(self, emit: Callable[[Chunk], None], ns: Namespace, subgraphs: bool) -> None:
        self._emit, self._ns, self._subgraphs = emit, ns, subgraphs
        self._open: dict[tuple[Namespace, str], ToolCallChunks] = {}

    def begin(
        self, ns: Namespace, call_id: str, name: str, input: Any, tags: Sequence[str] = ()
    ) -> ToolCallChunks | None:
        """Emits that a call begins, and returns what emits the rest; None where nobody is told."""
        if TAG_NOSTREAM in tags or (ns != self._ns and not self._subgraphs):
            return None
        chunks = self._open[ns, call_id] = ToolCallChunks(self, ns, call_id)
        begins = {"event": "tool-started", "tool_call_id": call_id, "tool_name": name}
        self.emit(ns, begins if input is None else {**begins, "input": input})
        return chunks

    def emit_delta(self, ns: Namespace, call_id: str | None, delta: Any) -> None:
        """Emits a part of the output of a call that has begun."""
        if call_id is not None and (ns, call_id) in self._open:
            said = {"event": "tool-output-delta", "tool_call_id": call_id, "delta": delta}
            self.emit(ns, said)

    def end(self, ns: Namespace, call_id: str) -> None:
        """Forgets a call that has ended."""
        self._open.pop((ns, call_id), None)

    def emit(self, ns: Namespace, data: dict[str, Any]) -> None:
        """Emits one chunk."""
        self._emit((ns, "tools", data))


class ToolCallChunks:
    """Emits how one call of a tool ends; of one that pauses nothing more is emitted."""

    __slots__ = ("_call_id", "_ns", "_stream")

    def __init__(self, stream: ToolStream, ns: Namespace, call_id: str) -> None:
        self._stream, self._ns, self._call_id = stream, ns, call_id

    def finish(self, output: Any) -> None:
        """Emits what the call has returned."""
        self._end({"event": "tool-finished", "tool_call_id": self._call_id, "output": output})

    def fail(self, error: BaseException) -> None:
        """Emits what the call has raised."""
        self._end({"event": "tool-error", "tool_call_id": self._call_id, "message": str(error)})

    def _end(self, data: dict[str, Any]) -> None:
        self._stream.end(self._ns, self._call_id)
        self._stream.emit(self._ns, data)
