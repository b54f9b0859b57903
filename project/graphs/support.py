"""*support*: an agent of LangChain's, run by LangGraph's engine, where both are installed.

It looks the order up, and wants to refund it, which somebody has to approve. Its model has a
script, so that the demo needs no network:

    echo '{"messages": [["user", "Order A-7 is broken."]]}' > order.json
    manage.py hitl start support --input order.json
"""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.contrib.langgraph import register_langgraph

ORDER = re.compile(r"\b[A-Z]{1,3}-\d{1,6}\b")


def look_up(order: str) -> str:
    """Looks an order up."""
    return f"Order {order}: a lamp for 49.90 EUR, delivered last week."


def refund(order: str, cents: int) -> str:
    """Pays the price of an order back."""
    return f"Order {order}: {cents / 100:.2f} EUR are paid back."


@register_langgraph("support", version="1", title=_("Support"))
def build_support() -> Any:
    """Returns the agent; langchain is loaded with it, and not before."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class ScriptedModel(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
            said = AIMessage(**_answer(messages))
            return ChatResult(generations=[ChatGeneration(message=said)])

    return create_agent(
        ScriptedModel(),
        tools=[look_up, refund],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
    )


def _answer(messages: list[Any]) -> dict[str, Any]:
    """Returns what the model says next: a call of a tool, or what came of the last one."""
    (asked,) = [message for message in messages if message.type == "human"][-1:]
    since = messages[messages.index(asked) + 1 :]
    found = ORDER.search(asked.text)
    if found is None:
        return {"content": "Which order is it about?"}
    results = [message.text for message in since if message.type == "tool"]
    if len(results) > 1:
        return {"content": results[-1]}
    args: dict[str, Any] = {"order": found[0]}
    name = "look_up"
    if results:
        name, args = "refund", {**args, "cents": 4990}
    call = {"name": name, "args": args, "id": f"call-{len(messages)}", "type": "tool_call"}
    return {"content": "", "tool_calls": [call]}
