"""The stream mode ``tools``: the start, the output and the end of tool calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..constants import TAG_NOSTREAM
from ..types import Chunk

Namespace = tuple[str, ...]


class ToolStream:
    """An emitter of stream chunks about the tool calls of a run.

    ``emit`` is called with each chunk. If ``subgraphs`` is false, only tool calls in the run's
    namespace ``ns`` are emitted. ``above`` is the tool stream of the calling run. Tool calls of
    this run are also emitted by ``above``.
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
        """Return the tool stream for a separate run that a node starts, or None.

        A tool stream with ``subgraphs`` false doesn't include separate runs. The result therefore
        links, by ``above``, copies of only those tool streams of this run and of its calling runs
        that include subgraphs. The result is None if there is no such tool stream.
        """
        above = None if self._above is None else self._above.drop_narrow()
        if not self.subgraphs:
            return above
        wide = copy.copy(self)
        wide._above = above
        return wide

    def begin(
        self, ns: Namespace, call_id: str, name: str, given: Any, tags: Sequence[str]
    ) -> ToolCallChunks:
        """Emit the start of a tool call, and return an emitter for the end of the call.

        This tool stream and the tool streams of the calling runs emit the start and the end.
        ``given`` is the input of the tool.
        """
        including = [
            stream for stream in self._lineage() if stream.open(ns, call_id, name, given, tags)
        ]
        return ToolCallChunks(including, ns, call_id)

    def open(self, ns: Namespace, call_id: str, name: str, given: Any, tags: Sequence[str]) -> bool:
        """Emit the start of a tool call with the input ``given``.

        Return whether this tool stream includes the call.
        """
        if TAG_NOSTREAM in tags or (ns != self._ns and not self.subgraphs):
            return False
        self._open.add((ns, call_id))
        begins = {"event": "tool-started", "tool_call_id": call_id, "tool_name": name}
        self._emit_chunk(ns, begins if given is None else {**begins, "input": given})
        return True

    def emit_delta(self, ns: Namespace, call_id: str | None, delta: Any) -> None:
        """Emit a part of the output of a started tool call."""
        for stream in self._lineage():
            if (ns, call_id) in stream._open:
                chunk = {"event": "tool-output-delta", "tool_call_id": call_id, "delta": delta}
                stream._emit_chunk(ns, chunk)

    def close(self, ns: Namespace, call_id: str, ended: dict[str, Any]) -> None:
        """Emit the end of a tool call."""
        self._open.discard((ns, call_id))
        self._emit_chunk(ns, ended)

    def _lineage(self) -> Iterator[ToolStream]:
        stream: ToolStream | None = self
        while stream is not None:
            yield stream
            stream = stream._above

    def _emit_chunk(self, ns: Namespace, data: dict[str, Any]) -> None:
        self._emit((ns, "tools", data))


class ToolCallChunks:
    """An emitter for the end of one tool call. If the call pauses, no end is emitted."""

    __slots__ = ("_call_id", "_ns", "_streams")

    def __init__(self, streams: Sequence[ToolStream], ns: Namespace, call_id: str) -> None:
        self._streams, self._ns, self._call_id = streams, ns, call_id

    def finish(self, output: Any) -> None:
        """Emit the result of the tool call."""
        self._end({"event": "tool-finished", "tool_call_id": self._call_id, "output": output})

    def fail(self, error: BaseException) -> None:
        """Emit the error of the tool call."""
        self._end({"event": "tool-error", "tool_call_id": self._call_id, "message": str(error)})

    def _end(self, data: dict[str, Any]) -> None:
        for stream in self._streams:
            stream.close(self._ns, self._call_id, data)
