"""Tools with state, store and runtime arguments that the model doesn't see."""

from typing import Annotated

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command


class State(MessagesState):
    user: str
    visits: int


@tool
def greet(greeting: str, user: Annotated[str, InjectedState("user")]) -> str:
    """Greet the user."""
    return f"{greeting}, {user}"


@tool
def count(state: Annotated[dict, InjectedState]) -> str:
    """Count the messages."""
    return f"{len(state['messages'])} messages of {state['user']}"


@tool
def note(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a note."""
    store.put(("notes",), "n", {"text": text})
    return "kept"


@tool
def visit(place: str, runtime: ToolRuntime) -> Command:
    """Visit a place."""
    runtime.stream_writer(f"on the way to {place}")
    said = f"{runtime.state['user']} ({runtime.context['role']}) is in {place}"
    return Command(
        update={
            "visits": runtime.state["visits"] + 1,
            "messages": [ToolMessage(said, tool_call_id=runtime.tool_call_id)],
        }
    )


@tool
def whose(call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Tell which call this is."""
    return f"call {call_id}"


def model(state: State):
    calls = [
        {"name": "greet", "args": {"greeting": "Hi", "user": "forged"}, "id": "1"},
        {"name": "count", "args": {}, "id": "2"},
        {"name": "note", "args": {"text": "remember me"}, "id": "3"},
        {"name": "visit", "args": {"place": "Rome"}, "id": "4"},
        {"name": "whose", "args": {}, "id": "5"},
    ]
    return {"messages": [AIMessage("", tool_calls=calls)]}


tools = [greet, count, note, visit, whose]
for one in tools:
    print(one.name, sorted(one.tool_call_schema.model_json_schema().get("properties", {})))

store = InMemoryStore()
builder = StateGraph(State, context_schema=dict)
builder.add_sequence([("model", model), ("tools", ToolNode(tools))])
builder.add_edge(START, "model")
graph = builder.compile(store=store)

start = {"messages": ["go"], "user": "Ada", "visits": 0}
context = {"role": "admin"}
for mode, data in graph.stream(start, context=context, stream_mode=["custom", "values"]):
    if mode == "custom":
        print(mode, data)
print(data["visits"])
for message in data["messages"][2:]:
    print(message.name, message.status, message.content)
print(store.get(("notes",), "n").value)
