"""Agents with interrupts in tools, wrappers and hooks, with both savers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from hitl_django import Command, interrupt
from hitl_django.langgraph.graph.message import push_message
from hitl_django.langgraph.prebuilt import ToolNode, create_react_agent

HI = {"messages": [("user", "hi")]}


class Answer(BaseModel):
    """What the agent is to come to."""

    text: str


class Model(GenericFakeChatModel):
    """A model that returns scripted messages, whatever its tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Model:
        return self

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        return RunnableLambda(lambda messages: schema(text=f"{len(messages)} messages"))


def model() -> Model:
    calls = [{"name": "pay", "args": {"to": to}, "id": to} for to in ("ann", "bob")]
    return Model(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))


def pay(to: str) -> str:
    """Pay somebody."""
    return f"{to}: {interrupt({'pay': to})}"


def said(result: Any) -> list[str]:
    return [m.content for m in result["messages"] if isinstance(m, ToolMessage)]


@pytest.fixture(params=["invoke", "ainvoke"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    def make(agent: Any, *args: Any) -> Any:
        if request.param == "invoke":
            return agent.invoke(*args)
        return async_to_sync(agent.ainvoke)(*args)

    return make


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_react_agent_resumes_two_tool_interrupts_by_interrupt_id(
    checkpointer: Any, config: Any, call: Callable[..., Any], version: Any
) -> None:
    agent = create_react_agent(
        model(), [pay], version=version, checkpointer=checkpointer, response_format=Answer
    )
    first, second = call(agent, HI, config)["__interrupt__"]
    assert (first.value, second.value) == ({"pay": "ann"}, {"pay": "bob"})
    result = call(agent, Command(resume={second.id: "no", first.id: "yes"}), config)
    assert said(result) == ["ann: yes", "bob: no"]
    assert result["messages"][-1].content == "done"
    stored = agent.get_state(config).values
    assert stored["structured_response"] == Answer(text="5 messages")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_react_agent_resumes_two_tool_interrupts_one_after_another(
    checkpointer: Any, config: Any, call: Callable[..., Any], version: Any
) -> None:
    agent = create_react_agent(model(), [pay], version=version, checkpointer=checkpointer)
    first, second = call(agent, HI, config)["__interrupt__"]
    (left,) = call(agent, Command(resume={first.id: "yes"}), config)["__interrupt__"]
    assert left == second
    assert said(call(agent, Command(resume="no"), config)) == ["ann: yes", "bob: no"]


def test_react_agent_interrupt_of_tool_call_wrapper_precedes_the_tool_interrupt(
    checkpointer: Any, config: Any, call: Callable[..., Any]
) -> None:
    def leave_first(request: Any, execute: Any) -> Any:
        if interrupt({"allow": request.tool_call["args"]}) == "no":
            return ToolMessage("refused", tool_call_id=request.tool_call["id"])
        return execute(request)

    node = ToolNode([pay], wrap_tool_call=leave_first, handle_tool_errors=True)
    agent = create_react_agent(model(), node, checkpointer=checkpointer)
    first, second = call(agent, HI, config)["__interrupt__"]
    answers = {first.id: "yes", second.id: "no"}
    (asked,) = call(agent, Command(resume=answers), config)["__interrupt__"]
    assert asked.value == {"pay": "ann"}
    assert said(call(agent, Command(resume="paid"), config)) == ["ann: paid", "refused"]


def test_react_agent_post_model_hook_interrupts_before_any_tool_runs(
    checkpointer: Any, config: Any, call: Callable[..., Any]
) -> None:
    paid: list[str] = []

    def transfer(to: str) -> str:
        """Transfer money."""
        paid.append(to)
        return f"paid {to}"

    def review(state: Any) -> Any:
        calls = getattr(state["messages"][-1], "tool_calls", ())
        if not calls:
            return {}
        refused = interrupt([call["args"]["to"] for call in calls])
        return {
            "messages": [
                ToolMessage("refused", tool_call_id=call["id"], name=call["name"])
                for call in calls
                if call["args"]["to"] in refused
            ]
        }

    transfer.__name__ = "pay"
    agent = create_react_agent(
        model(), [transfer], post_model_hook=review, checkpointer=checkpointer
    )
    (asked,) = call(agent, HI, config)["__interrupt__"]
    assert asked.value == ["ann", "bob"]
    assert paid == []
    result = call(agent, Command(resume=["ann"]), config)
    assert (said(result), paid) == (["refused", "paid bob"], ["bob"])


def test_react_agent_message_pushed_by_finished_tool_is_stored_despite_tool_interrupt(
    checkpointer: Any, config: Any, call: Callable[..., Any]
) -> None:
    """The call that has ended doesn't run again, and what it pushed isn't lost."""

    def tell(to: str) -> str:
        """Pay somebody."""
        if to == "bob":
            return pay(to)
        push_message(AIMessage("on its way", id="p"))
        return f"{to}: told"

    tell.__name__ = "pay"
    agent = create_react_agent(model(), [tell], version="v1", checkpointer=checkpointer)
    call(agent, HI, config)
    result = call(agent, Command(resume="yes"), config)
    texts = [message.content for message in result["messages"]]
    assert texts == ["hi", "", "on its way", "ann: told", "bob: yes", "done"]


def test_react_agent_checkpoint_stores_sent_tool_calls_without_messages(
    checkpointer: Any, config: Any
) -> None:
    agent = create_react_agent(model(), [pay], checkpointer=checkpointer)
    agent.invoke(HI, config)
    stored = checkpointer.get_tuple(config).checkpoint["channel_values"]
    assert all(set(sent.arg) == {"__type", "tool_call"} for sent in stored["__pregel_tasks"])
