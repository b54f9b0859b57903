"""The history of a thread, replayed and forked with a changed state."""

import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    topic: str
    joke: str
    log: Annotated[list[str], operator.add]


def choose(state: State):
    return {"topic": state.get("topic", "cats"), "log": ["chosen"]}


def write(state: State):
    return {"joke": f"a joke about {state['topic']}", "log": ["written"]}


builder = StateGraph(State)
builder.add_sequence([choose, write])
builder.add_edge(START, "choose")
builder.add_edge("write", END)
graph = builder.compile(checkpointer=InMemorySaver())

config = {"configurable": {"thread_id": "t"}}
print(graph.invoke({}, config))

history = list(graph.get_state_history(config))
for state in history:
    print(state.metadata["source"], state.metadata["step"], state.next, sorted(state.values))

before_write = next(state for state in history if state.next == ("write",))
print("replayed:", graph.invoke(None, before_write.config))

fork = graph.update_state(before_write.config, {"topic": "dogs"})
print("forked:", graph.get_state(fork).next, graph.get_state(fork).metadata["source"])
print("gone on:", graph.invoke(None, fork))
print("newest:", graph.get_state(config).values["joke"])

graph.update_state(config, {"joke": "told", "log": ["by hand"]}, as_node="write")
print(graph.get_state(config).values, graph.get_state(config).next)
graph.update_state(config, {"topic": "birds"}, as_node="choose")
print(graph.get_state(config).next, graph.invoke(None, config)["joke"])

steps = [state.metadata["step"] for state in graph.get_state_history(config, limit=3)]
print(steps)
updates = graph.get_state_history(config, filter={"source": "update"})
print([state.values["topic"] for state in updates])
