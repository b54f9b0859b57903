"""Chatbot of the article on the main flows: a tool that requests a response."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from hitl_django import Command

from .conftest import SAVERS

#: The program of 1.1 as it is printed, but for the model and the search, which need keys.
PROGRAM = '''
from typing import Annotated

from typing_extensions import TypedDict

from langgraph.graph import StateGraph, START, END
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.checkpoint.memory import InMemorySaver
from langchain_core.tools import tool
from langgraph.types import Command, interrupt


class State(TypedDict):
    messages: Annotated[list, add_messages]

@tool
def human_assistance(query: str) -> str:
    """Request assistance from a human."""
    human_response = interrupt({"query": query})
    return human_response["data"]


graph_builder = StateGraph(State)

tools = [tool_search, human_assistance]
llm_with_tools = llm.bind_tools(tools)


def chatbot(state: State):
    return {"messages": [llm_with_tools.invoke(state["messages"])]}


graph_builder.add_node("chatbot", chatbot)

tool_node = ToolNode(tools=tools)
graph_builder.add_node("tools", tool_node)

graph_builder.add_conditional_edges(
    "chatbot",
    tools_condition,
)
# Any time a tool is called, we return to the chatbot to decide the next step
graph_builder.add_edge("tools", "chatbot")
graph_builder.add_edge(START, "chatbot")

memory = InMemorySaver()
graph = graph_builder.compile(checkpointer=memory)


user_input = "I need some expert guidance for building an AI agent. Could you request assistance for me?"
config = {"configurable": {"thread_id": "1"}}

events = graph.stream(
    {"messages": [{"role": "user", "content": user_input}]},
    config,
    stream_mode="values",
)
for event in events:
    if "messages" in event:
        event["messages"][-1].pretty_print()


human_response = (
    "We, the experts are here to help! We'd recommend you check out LangGraph to build your agent."
    " It's much more reliable and extensible than simple autonomous agents."
)

human_command = Command(resume={"data": human_response})

events = graph.stream(human_command, config, stream_mode="values")
for event in events:
    if "messages" in event:
        event["messages"][-1].pretty_print()
'''  # noqa: E501 - as in the article
DJANGO = "from hitl_django.checkpoints import DjangoSaver as InMemorySaver"


class Model:
    """A stand-in for the article's model: asks for assistance, then repeats what it was told."""

    def bind_tools(self, tools: Any) -> Model:
        self.tools = [one.name for one in tools]
        return self

    def invoke(self, messages: list[Any]) -> AIMessage:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return AIMessage(f"The experts say: {last.content}")
        assert isinstance(last, HumanMessage)
        call = {"name": self.tools[-1], "args": {"query": last.content}, "id": "call-1"}
        return AIMessage("I will ask for assistance.", tool_calls=[call])


@tool
def search(query: str) -> str:
    """A stand-in for the article's web search."""
    return f"nothing about {query}"


def ported(saver: str) -> str:
    """Return the program with its imports changed, and nothing else."""
    program = PROGRAM.replace("from langgraph.", "from hitl_django.langgraph.")
    if saver == "django":
        memory = "from hitl_django.langgraph.checkpoint.memory import InMemorySaver"
        program = program.replace(memory, DJANGO)
    return program


def run(program: str) -> dict[str, Any]:
    """Run the program with the stand-ins; returns its names."""
    names = {"llm": Model(), "tool_search": search, "__name__": "program"}
    exec(compile(program, "program", "exec", dont_inherit=True), names)
    return names


def chatbot_builder() -> Any:
    """Return the program's graph, not compiled."""
    return run(ported("memory").partition("memory = ")[0])["graph_builder"]


@pytest.mark.parametrize("saver", ["memory", pytest.param("django", marks=pytest.mark.django_db)])
@pytest.mark.filterwarnings("ignore")
def test_chatbot_article_program_output_matches_langgraph(saver: str, printed: Any) -> None:
    """Follow 1.1."""
    run(PROGRAM)
    expected = printed.lines()
    graph = run(ported(saver))["graph"]
    assert printed.lines() == expected
    assert expected[-1].startswith("The experts say: We, the experts are here to help!")
    assert graph.get_state({"configurable": {"thread_id": "1"}}).next == ()
    assert isinstance(graph.checkpointer, SAVERS[saver])


@pytest.mark.parametrize("saver", ["memory", pytest.param("django", marks=pytest.mark.django_db)])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_chatbot_thread_stores_the_message_objects_of_the_result(
    saver: str, config: Any, way: str
) -> None:
    """Follow 1.1: what the thread stores are the messages themselves."""
    program, _, _ = ported(saver).partition("user_input = ")
    graph = run(program)["graph"]
    call = graph.invoke if way == "invoke" else async_to_sync(graph.ainvoke)
    call({"messages": [("user", "help")]}, config)
    result = call(Command(resume={"data": "read"}), config)
    stored = graph.get_state(config).values["messages"]
    assert stored == result["messages"]
    kinds = [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert [type(message) for message in stored] == kinds
    assert stored[1].tool_calls[0]["id"] == stored[2].tool_call_id == "call-1"
    assert stored[2].content == "read"
