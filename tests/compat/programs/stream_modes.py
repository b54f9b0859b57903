"""A run streamed in several modes, with its subgraphs."""

import asyncio
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.types import StreamWriter


class State(TypedDict, total=False):
    topic: str
    found: list[str]


def search(state: State, writer: StreamWriter):
    for percent in (50, 100):
        writer({"progress": percent})
    return {"found": [f"all about {state['topic']}"]}


def rank(state: State):
    get_stream_writer()("ranking")
    return {"found": sorted(state["found"])}


research = StateGraph(State).add_node(search).add_node(rank)
research.add_edge(START, "search").add_edge("search", "rank")

builder = StateGraph(State)
builder.add_node("clean", lambda state: {"topic": state["topic"].strip().lower()})
builder.add_node("research", research.compile())
builder.add_edge(START, "clean").add_edge("clean", "research")
graph = builder.compile(checkpointer=InMemorySaver())
MODES = ["values", "updates", "custom", "tasks", "checkpoints"]


def show(ns, mode, data):
    if mode == "tasks":
        data = (data["name"], "result" if "result" in data else "start")
    if mode == "checkpoints":
        data = (data["metadata"]["source"], data["metadata"]["step"], data["next"])
    print("/".join(level.split(":")[0] for level in ns) or ".", mode, data)


config = {"configurable": {"thread_id": "sync"}}
for ns, mode, data in graph.stream(
    {"topic": " Bees "}, config, stream_mode=MODES, subgraphs=True, durability="sync"
):
    show(ns, mode, data)


async def main():
    async for ns, data in graph.astream(
        {"topic": "ANTS"},
        {"configurable": {"thread_id": "a"}},
        stream_mode="updates",
        subgraphs=True,
    ):
        show(ns, "updates", data)
    async for mode, data in graph.astream(
        {"topic": "FLIES"}, {"configurable": {"thread_id": "b"}}, stream_mode=["values", "custom"]
    ):
        show((), mode, data)


asyncio.run(main())
print(*graph.stream({"topic": "x"}, config, stream_mode="custom"))
print(*graph.stream({"topic": "x"}, config, stream_mode="values", output_keys="found"))
