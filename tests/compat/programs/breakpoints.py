"""Breakpoints before and after nodes: the state is read, changed and resumed."""

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    amount: int
    paid: bool


def prepare(state: State):
    return {"amount": state["amount"] * 2}


def pay(state: State):
    print(f"paying {state['amount']}")
    return {"paid": True}


def report(state: State):
    print("reported")


builder = StateGraph(State)
builder.add_sequence([prepare, pay, report])
builder.add_edge(START, "prepare")
graph = builder.compile(
    checkpointer=InMemorySaver(), interrupt_before=["pay"], interrupt_after=["pay"]
)

config = {"configurable": {"thread_id": "t"}}
for event in graph.stream({"amount": 5}, config, stream_mode="values"):
    print(event)
print("stopped before", graph.get_state(config).next)

graph.update_state(config, {"amount": 7})
print("changed to", graph.get_state(config).values, graph.get_state(config).next)

for event in graph.stream(None, config, stream_mode="updates"):
    print(event)
print("stopped before", graph.get_state(config).next)
print(graph.invoke(None, config), graph.get_state(config).next)

other = {"configurable": {"thread_id": "u"}}
plain = builder.compile(checkpointer=InMemorySaver())
print(plain.invoke({"amount": 1}, other, interrupt_before=["report"]))
print(plain.get_state(other).next)
plain.update_state(other, {"paid": False}, as_node="report")
print(plain.invoke(None, other), plain.get_state(other).next)
