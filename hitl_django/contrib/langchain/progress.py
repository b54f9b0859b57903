"""Progress reports from LangChain's callbacks, for nodes with an idle timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler


class ProgressCallbacks(BaseCallbackHandler):
    """Callback handler that reports each event, for example a token or a retry, as progress."""

    #: Run on the calling OS thread, because a delayed report would come too late.
    run_inline = True

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report

    def _hear(self, *args: Any, **kwargs: Any) -> None:
        self._report()

    on_llm_start = on_chat_model_start = on_llm_new_token = on_llm_end = on_llm_error = _hear
    on_chain_start = on_chain_end = on_chain_error = _hear
    on_tool_start = on_tool_end = on_tool_error = _hear
    on_retriever_start = on_retriever_end = on_retriever_error = _hear
    on_agent_action = on_agent_finish = on_text = on_retry = on_custom_event = _hear
