"""Agents of LangChain and graphs of LangGraph with scripted models, without a network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import StateGraph, add_messages
from langgraph.prebuilt import create_react_agent
from langgraph.types import interrupt
from typing_extensions import TypedDict

Call = tuple[str, dict[str, Any]]

#: The actions that the tools have performed.
done: list[str] = []


class ScriptedModel(BaseChatModel):
    """A model with a scripted response for each number of earlier responses."""

    script: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        said = self.script[turn]
        if callable(said):
            said = said(messages)
        if isinstance(said, str):
            message = AIMessage(said, id=f"ai-{turn}")
        else:
            calls = [
                {"name": name, "args": args, "id": f"{turn}-{number}", "type": "tool_call"}
                for number, (name, args) in enumerate(said)
            ]
            message = AIMessage("", tool_calls=calls, id=f"ai-{turn}")
        return ChatResult(generations=[ChatGeneration(message=message)])


def sum_up(messages: Sequence[BaseMessage]) -> str:
    """Model function that repeats the messages of tools."""
    return "; ".join(m.text for m in messages if isinstance(m, ToolMessage))


@tool
def refund(order: str) -> str:
    """Refund an order."""
    done.append(f"refund {order}")
    return f"refunded {order}"


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    done.append(f"look_up {order}")
    return f"{order} is there"


@tool
async def look_up_later(order: str) -> str:
    """Look an order up, on an event loop."""
    done.append(f"look_up_later {order}")
    return f"{order} was there"


@tool
def ask_and_refund(order: str) -> str:
    """Refund an order if a person says so."""
    answer = interrupt({"action_request": {"action": "refund", "args": {"order": order}}})
    done.append(f"ask_and_refund {order}")
    return f"{order}: {answer}"


def build_agent(calls: Sequence[Call], *tools: Any) -> Any:
    """Return an agent that calls tools.

    Calls of ``refund`` need an approval.
    """
    return build_approved_agent(list(calls), refund, look_up, *tools)


def build_approved_agent(calls: Any, seen: Any, *tools: Any) -> Any:
    """Return an agent whose calls of the first tool need an approval."""
    return create_agent(
        ScriptedModel(script=[calls, sum_up]),
        tools=[seen, *tools],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={seen.name: True})],
    )


def build_agent_of_single_calls(calls: Sequence[Call]) -> Any:
    """Return an agent that requests an approval for each call of ``refund`` separately, when the
    call begins.
    """
    middleware = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    model = ScriptedModel(script=[list(calls), sum_up])
    return create_agent(model, tools=[refund, look_up], middleware=[middleware])


def build_react_agent(calls: Sequence[Call]) -> Any:
    """Return an agent with a tool that interrupts."""
    return build_asking_agent(list(calls), ask_and_refund, look_up)


def build_asking_agent(calls: Any, *tools: Any) -> Any:
    """Return a LangGraph agent with tools that interrupt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # The function moved to langchain.
        return create_react_agent(ScriptedModel(script=[calls, sum_up]), [*tools])


class Desk(TypedDict, total=False):
    """The state of a supervisor and its agents."""

    messages: Annotated[list[AnyMessage], add_messages]


def build_supervisor() -> Any:
    """Return a graph with two sequential agents as nodes."""
    first = build_agent([("look_up", {"order": "1"}), ("refund", {"order": "1"})])

    def second(state: Desk) -> Desk:
        agent = build_react_agent([("ask_and_refund", {"order": "2"})])
        return {"messages": agent.invoke({"messages": [("user", "and two")]})["messages"]}

    def supervise(state: Desk) -> Desk:
        done.append("supervise")
        return {}

    graph = StateGraph(Desk).add_node("supervise", supervise)
    graph.add_node("first", first).add_node("second", second)
    graph.add_edge("__start__", "supervise").add_edge("supervise", "first")
    return graph.add_edge("supervise", "second").compile()


def build_functional() -> Any:
    """Return a functional graph with interrupts in a task and in the entrypoint."""

    @task
    def price(order: str) -> int:
        done.append(f"price {order}")
        return len(order)

    @task
    def sign(order: str) -> str:
        return f"signed by {interrupt(f'who signs {order}?')}"

    @entrypoint()
    def sell(order: str) -> dict[str, Any]:
        cents = price(order).result()
        signed = sign(order).result()
        sure = interrupt({"cents": cents})
        return {"cents": cents, "signed": signed, "sure": sure}

    return sell


def ask_for(count: int) -> Callable[[], Any]:
    """Return the factory of a graph with a node that interrupts ``count`` times."""

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [("ai", " ".join(str(interrupt(f"{n}?")) for n in range(count)))]}

    return lambda: StateGraph(Desk).add_node("ask", ask).add_edge("__start__", "ask")
