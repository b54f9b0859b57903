"""*support*: a LangChain agent run by LangGraph's engine, if both are installed.

The agent looks up an order and proposes a refund, which needs an approval. Its model follows a
script and streams its words one by one, so the demo needs no network. Use the page ``chat/`` or a
shell:

    echo '{"messages": [["user", "Order A-7 is broken."]]}' > order.json
    manage.py hitl start support --input order.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from time import sleep
from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django import ReviewPolicy
from hitl_django.contrib.langgraph import register_langgraph

ORDER = re.compile(r"\b[A-Z]{1,3}-\d{1,6}\b")
#: Seconds that the model takes per word.
PACE = 0.06


def look_up(order: str) -> str:
    """Look up an order."""
    return f"Order {order}: a lamp for 49.90 EUR, delivered last week."


def refund(order: str, cents: int) -> str:
    """Refund the price of an order."""
    return f"Order {order}: {cents / 100:.2f} EUR refunded."


REVIEW = ReviewPolicy(display={"cents": "money EUR"})


@register_langgraph("support", version="1", title=_("Support chat"), review=REVIEW)
def build_support() -> Any:
    """Return the agent.

    The function imports langchain only when it is called, because the import is slow.
    """
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models.chat_models import (
        BaseChatModel,
        generate_from_stream,
    )
    from langchain_core.messages import AIMessageChunk
    from langchain_core.outputs import ChatGenerationChunk, ChatResult

    class ScriptedModel(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _stream(
            self, messages: list[Any], *args: Any, run_manager: Any = None, **kwargs: Any
        ) -> Iterator[ChatGenerationChunk]:
            for part in _answer(messages):
                sleep(PACE)
                chunk = ChatGenerationChunk(message=AIMessageChunk(**part))
                if run_manager is not None:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
            return generate_from_stream(self._stream(messages))

    return create_agent(
        ScriptedModel(),
        tools=[look_up, refund],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
    )


def _answer(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the model's next message in chunks: its words, followed by an optional tool call."""
    (request,) = [message for message in messages if message.type == "human"][-1:]
    since = messages[messages.index(request) + 1 :]
    found = ORDER.search(request.text)
    if found is None:
        yield from _split("Which order is this about?")
        return
    results = [message.text for message in since if message.type == "tool"]
    if len(results) > 1:
        yield from _split(results[-1])
        return
    args: dict[str, Any] = {"order": found[0]}
    name, words = "look_up", f"Let me look {found[0]} up."
    if results:
        name, args = "refund", {**args, "cents": 4990}
        words = f"{results[0]} I'd like to refund it. A colleague has to approve that first."
    yield from _split(words)
    call = {"name": name, "args": json.dumps(args), "id": f"call-{len(messages)}", "index": 0}
    yield {"content": "", "tool_call_chunks": [call]}


def _split(text: str) -> Iterator[dict[str, Any]]:
    for word in re.findall(r"\S+\s*", text):
        yield {"content": word}
