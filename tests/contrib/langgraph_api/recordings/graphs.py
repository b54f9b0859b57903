"""Graphs of the recorded calls, for LangGraph's engine and for this package's engine.

LangGraph's server loads this module in an environment without this package.
"""

from __future__ import annotations

import operator
import time
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class Chat(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    answer: Any


INBOX_REQUEST = {
    "action_request": {"action": "send", "args": {"to": "ann"}},
    "config": {
        "allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True
    },
    "description": "An email to Ann",
}  # fmt: skip
MIDDLEWARE_REQUEST = {
    "action_requests": [{"name": "send", "args": {"to": "ann"}, "description": "An email"}],
    "review_configs": [{"action_name": "send", "allowed_decisions": ["approve", "reject"]}],
}


class Delay(TypedDict):
    seconds: float


def greet(state: Chat) -> Any:
    return {"log": ["greeted"]}


def close(state: Chat) -> Any:
    return {"log": ["closed"]}


def fail(state: Chat) -> Any:
    raise RuntimeError("the model is not available")


def sleep(state: Delay) -> Any:
    time.sleep(state["seconds"])
    return {"seconds": 0.0}


def speak(state: Any) -> Any:
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello there.")]))
    return {"messages": [model.invoke(state["messages"])]}


def build_graphs(engine: Any) -> dict[str, Any]:
    """Return compiled graphs by name. ``engine`` has LangGraph's names as attributes."""

    def ask(state: Chat) -> Any:
        return {"answer": engine.interrupt({"title": "Continue?"})}

    def ask_inbox(state: Chat) -> Any:
        return {"answer": engine.interrupt([INBOX_REQUEST])}

    def ask_middleware(state: Any) -> Any:
        answer = engine.interrupt(MIDDLEWARE_REQUEST)
        return {"messages": [AIMessage(str(answer))]}

    def chain(state: Any, **nodes: Any) -> Any:
        graph = engine.StateGraph(state)
        for name, node in nodes.items():
            graph.add_node(name, node)
        for source, target in zip((engine.START, *nodes), (*nodes, engine.END), strict=True):
            graph.add_edge(source, target)
        return graph.compile()

    sides = engine.StateGraph(Chat)
    for name in ("left", "right"):
        sides.add_node(name, ask)
        sides.add_edge(engine.START, name).add_edge(name, engine.END)
    return {
        "chat": chain(Chat, greet=greet, ask=ask, close=close),
        "outer": chain(Chat, inner=chain(Chat, ask=ask)),
        "sides": sides.compile(),
        "plain": chain(Chat, greet=greet, close=close),
        "failing": chain(Chat, fail=fail),
        "inbox": chain(Chat, ask=ask_inbox),
        "assistant": chain(engine.MessagesState, speak=speak, ask=ask_middleware),
        "slow": chain(Delay, sleep=sleep),
        "speaking": chain(engine.MessagesState, speak=speak),
    }
