"""Stream mode ``tools`` for calls of LangChain tools."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from hitl_django.engine.errors import DrainSignal, GraphInterrupt, resolve_group
from hitl_django.engine.task.tool_stream import ToolCallChunks, ToolStream

from .message_stream import get_graph_ns
from .tool_outputs import unwrap_output


class ToolCallbacks(BaseCallbackHandler):
    """Callback handler that emits the calls of LangChain tools in a run's nodes."""

    #: Run on the calling OS thread, so that chunks stay in order.
    run_inline = True

    def __init__(self, stream: ToolStream) -> None:
        self._stream, self.subgraphs = stream, stream.subgraphs
        self._running: dict[UUID, ToolCallChunks] = {}

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not metadata:
            return
        ns = get_graph_ns(metadata)
        call_id = kwargs.get("tool_call_id") or str(run_id)
        name = (serialized or {}).get("name") or kwargs.get("name") or ""
        if self._stream.open(ns, call_id, name, inputs, tags or ()):
            self._running[run_id] = ToolCallChunks([self._stream], ns, call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        chunks = self._running.pop(run_id, None)
        if chunks is not None:
            chunks.finish(unwrap_output(output))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Emit the error of a tool, unless it is a pause.

        After a pause, the tool is called again when the run resumes.
        """
        chunks = self._running.pop(run_id, None)
        if isinstance(error, BaseExceptionGroup):
            error = resolve_group(error)
        if chunks is not None and not isinstance(error, GraphInterrupt | DrainSignal):
            chunks.fail(error)
