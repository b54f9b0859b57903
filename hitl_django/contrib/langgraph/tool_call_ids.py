"""The id of the current tool call, for code that the tool runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

#: The id of the running tool call, or an empty string outside of tools.
tool_call_id: ContextVar[str] = ContextVar("hitl_tool_call", default="")


class ToolCallIds(BaseCallbackHandler):
    """Callback handler that sets the context variable ``tool_call_id`` while a tool runs."""

    #: Run in the context of the call, so that the tool inherits the variable.
    run_inline = True

    def __init__(self) -> None:
        self._before: dict[UUID, str] = {}

    @property
    def ignore_chain(self) -> bool:
        return True

    @property
    def ignore_chat_model(self) -> bool:
        return True

    def on_tool_start(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        if called := kwargs.get("tool_call_id"):
            self._before[run_id] = tool_call_id.get()
            tool_call_id.set(called)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._leave(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._leave(run_id)

    def _leave(self, run_id: UUID) -> None:
        if run_id in self._before:
            tool_call_id.set(self._before.pop(run_id))
