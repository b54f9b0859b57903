"""The article on the main flows, its chatbot: a tool of the model asks a person."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from typing_extensions import TypedDict

from hitl_django import (
    START,
    Command,
    StateGraph,
    ToolNode,
    add_messages,
    interrupt,
    tools_condition,
)

USER_INPUT = (
    "I need some expert guidance for building an AI agent. Could you request assistance for me?"
)
HUMAN_RESPONSE = (
    "We, the experts are here to help! We'd recommend you check out LangGraph to build your agent."
    " It's much more reliable and extensible than simple autonomous agents."
)


class State(TypedDict):
    messages: Annotated[list, add_messages]


@tool
def human_assistance(query: str) -> str:
    """Request assistance from a human."""
    human_response = interrupt({"query": query})
    return human_response["data"]


class Model:
    """A stand-in for the article's model: asks for assistance, then repeats what it was told."""

    def bind_tools(self, tools: Any) -> Model:
        self.tools = [one.name for one in tools]
        return self

    def invoke(self, messages: list[Any]) -> AIMessage:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return AIMessage(f"The experts say: {last.content}")
        call = {"name": self.tools[-1], "args": {"query": content_of(last)}, "id": "call-1"}
        return AIMessage("I will ask for assistance.", tool_calls=[call])


@tool
def search(query: str) -> str:
    """A stand-in for the article's web search."""
    return f"nothing about {query}"


def content_of(message: Any) -> Any:
    return message["content"] if isinstance(message, dict) else message.content


def chatbot_builder() -> StateGraph:
    graph_builder = StateGraph(State)

    tools = [search, human_assistance]
    llm_with_tools = Model().bind_tools(tools)

    def chatbot(state: State) -> Any:
        return {"messages": [llm_with_tools.invoke(state["messages"])]}

    graph_builder.add_node("chatbot", chatbot)
    tool_node = ToolNode(tools=tools)
    graph_builder.add_node("tools", tool_node)
    graph_builder.add_conditional_edges("chatbot", tools_condition)
    graph_builder.add_edge("tools", "chatbot")
    graph_builder.add_edge(START, "chatbot")
    return graph_builder


def chatbot_graph(checkpointer: Any) -> Any:
    return chatbot_builder().compile(checkpointer=checkpointer)


def told(events: Any, printed: Any) -> list[str]:
    """Prints the last message of each event, as the article does; returns what was said."""
    said = []
    for event in events:
        if "messages" in event:
            last = event["messages"][-1]
            if isinstance(last, BaseMessage):
                last.pretty_print()
                said.append(printed.lines())
            else:
                said.append([last["content"]])
    return ["\n".join(line for line in lines if line) for lines in said]


def test_the_chatbot_asks_an_expert(checkpointer: Any, printed: Any) -> None:
    """Follows 1.1.

    The user's message stays the dict that it was given as: LangGraph makes a langchain message
    of it, which has pretty_print.
    """
    graph = chatbot_graph(checkpointer)
    config = {"configurable": {"thread_id": "1"}}
    events = graph.stream(
        {"messages": [{"role": "user", "content": USER_INPUT}]},
        config,
        stream_mode="values",
    )
    first = told(events, printed)
    assert first[0] == USER_INPUT
    assert "I will ask for assistance." in first[1]
    assert "human_assistance (call-1)" in first[1]
    (question,) = graph.get_state(config).interrupts
    assert question.value == {"query": USER_INPUT}
    assert graph.get_state(config).next == ("tools",)

    human_command = Command(resume={"data": HUMAN_RESPONSE})
    events = graph.stream(human_command, config, stream_mode="values")
    second = told(events, printed)
    assert "I will ask for assistance." in second[0]
    assert "Tool Message" in second[1]
    assert HUMAN_RESPONSE in second[1]
    assert f"The experts say: {HUMAN_RESPONSE}" in second[2]
    assert len(second) == 3


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_its_messages_come_back_as_they_were(checkpointer: Any, config: Any, way: str) -> None:
    """Follows 1.1: what the thread stores are the messages themselves."""
    graph = chatbot_graph(checkpointer)
    call = graph.invoke if way == "invoke" else async_to_sync(graph.ainvoke)
    call({"messages": [("user", "help")]}, config)
    result = call(Command(resume={"data": "read"}), config)
    stored = graph.get_state(config).values["messages"]
    assert stored == result["messages"]
    assert [type(message).__name__ for message in stored] == [
        "dict",
        "AIMessage",
        "ToolMessage",
        "AIMessage",
    ]
    assert stored[1].tool_calls[0]["id"] == stored[2].tool_call_id == "call-1"
    assert stored[2].content == "read"
