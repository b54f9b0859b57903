"""Stored results of the model calls in one turn of an agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.task.node_api import get_context, once
from hitl_django.engine.task.pushed_messages import push_message


class ModelCalls:
    """Calls models and stores their responses.

    If the task runs again, for example after a crash or an interrupt in a tool, the stored
    responses are returned in the order of the calls. Calls with the same ``agent`` must be
    sequential.
    """

    def __init__(self) -> None:
        context = get_context()
        self._task_id = context.task.id
        self._counts: Counter[str] = Counter()
        #: Whether the text of models is streamed.
        self.is_streaming = context.run.message_stream is not None

    async def call(self, agent: str, function: Callable[[str], Awaitable[Any]]) -> Any:
        """Call the function, and return its result. The result must be JSON.

        If the task runs again, the stored result of the same call of ``agent`` is returned instead.
        The function receives the id of the model's message.
        """
        self._counts[agent] += 1
        number = self._counts[agent]
        message_id = self.get_message_id(agent, number)

        async def respond() -> Any:
            return await function(message_id)

        try:
            return await once(f"model:{agent}:{number}", respond)
        except BaseException:
            # A repeated call takes the number of the failed call, because only responses are
            # stored. The next attempt of the task would otherwise return them for other calls.
            self._counts[agent] -= 1
            raise

    def get_message_id(self, agent: str, number: int) -> str:
        """Return the id of the message with the response of an agent's n-th model call."""
        return f"{self._task_id}-{agent}-{number}"

    def stream_text(self, message_id: str, text: str) -> None:
        """Emit a part of a model's text in the stream mode ``messages``."""
        if self.is_streaming and text:
            push_message(find_langchain().build_text_chunk(message_id, text), state_key=None)
