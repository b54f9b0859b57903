"""A node that waits until branches of different lengths have ended."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send


class State(TypedDict):
    votes: Annotated[list[str], operator.add]


def voter(name, choice):
    async def vote(state: State):
        return {"votes": [f"{name}: {choice}"]}

    return vote


async def count(state: State):
    print("counting", len(state["votes"]), "votes")
    return {"votes": [f"winner of {sorted(state['votes'])}"]}


builder = StateGraph(State)
builder.add_node("open", lambda state: {"votes": []})
builder.add_node("ada", voter("ada", "tea"))
builder.add_node("bob", voter("bob", "beer"))
builder.add_node("bob again", voter("bob", "tea"))
builder.add_node("bob at last", voter("bob", "water"))
builder.add_node("letter", lambda number: {"votes": [f"letter {number}"]})
builder.add_node("count", count, defer=True)
builder.add_edge(START, "open")
for one, other in [
    ("open", "ada"),
    ("open", "bob"),
    ("bob", "bob again"),
    ("bob again", "bob at last"),
    ("ada", "count"),
    ("bob at last", "count"),
    ("letter", "count"),
]:
    builder.add_edge(one, other)
builder.add_conditional_edges(
    "ada", lambda state: [Send("letter", 1), Send("letter", 2)], ["letter"]
)
graph = builder.compile(checkpointer=InMemorySaver())


async def main():
    config = {"configurable": {"thread_id": "t"}}
    print(await graph.ainvoke({"votes": ["mayor: tea"]}, config))
    async for state in graph.aget_state_history(config):
        print(state.metadata["step"], sorted(state.next), len(state.values["votes"]))


asyncio.run(main())
