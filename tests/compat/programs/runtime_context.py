"""Nodes with a typed context and a runtime, which are not stored."""

from dataclasses import dataclass
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime, get_runtime


@dataclass
class Context:
    user: str
    language: str = "en"


class State(TypedDict, total=False):
    greeting: str
    signed: str


WORDS = {"en": "Hello", "fr": "Bonjour"}


def greet(state: State, runtime: Runtime[Context]):
    runtime.stream_writer(f"greeting {runtime.context.user}")
    return {"greeting": f"{WORDS[runtime.context.language]} {runtime.context.user}"}


def sign(state: State):
    runtime = get_runtime(Context)
    config = get_config()
    thread = config["configurable"]["thread_id"]
    return {
        "signed": f"{state['greeting']}! ({thread}, {runtime.context.language}, {runtime.store})"
    }


def check(state: State, config):
    print(
        config["metadata"]["langgraph_node"], config["metadata"]["langgraph_step"], config["tags"]
    )


builder = StateGraph(State, context_schema=Context)
builder.add_sequence([greet, sign, check])
builder.add_edge(START, "greet")
graph = builder.compile(checkpointer=InMemorySaver())

for thread, context in [("a", Context("Ada")), ("b", {"user": "Zoé", "language": "fr"})]:
    config = {"configurable": {"thread_id": thread}, "tags": ["greeting"]}
    for mode, data in graph.stream({}, config, context=context, stream_mode=["custom", "updates"]):
        print(mode, data)
    print(graph.get_state(config).values)

try:
    graph.invoke({}, {"configurable": {"thread_id": "c"}}, context={"name": "nobody"})
except TypeError as error:
    print(type(error).__name__)
