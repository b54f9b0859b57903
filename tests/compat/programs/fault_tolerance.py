"""Retries, timeouts, caches and continuation after a failure."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError, NodeTimeoutError
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, RetryPolicy


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]


calls = {"flaky": 0, "slow": 0, "broken": 0}


def flaky(state: State):
    calls["flaky"] += 1
    if calls["flaky"] < 3:
        raise ConnectionError("no network")
    return {"log": [f"flaky worked at attempt {calls['flaky']}"]}


def slow(state: State):
    calls["slow"] += 1
    return {"log": [f"slow computed {state['x'] ** 2}"]}


def broken(state: State):
    calls["broken"] += 1
    if calls["broken"] == 1:
        raise ValueError("broken once")
    return {"log": ["broken no more"]}


builder = StateGraph(State)
quick = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=5)
builder.add_node("flaky", flaky, retry_policy=quick)
builder.add_node("slow", slow, cache_policy=CachePolicy(key_func=lambda s: str(s["x"]).encode()))
builder.add_node("broken", broken)
builder.add_edge(START, "flaky")
builder.add_edge("flaky", "slow")
builder.add_edge("slow", "broken")
graph = builder.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())

config = {"configurable": {"thread_id": "1"}}
try:
    graph.invoke({"x": 7}, config)
except ValueError as error:
    print("failed:", error)
state = graph.get_state(config)
print(state.next, state.tasks[0].error)
print(graph.invoke(None, config)["log"])

for chunk in graph.stream({"x": 7}, {"configurable": {"thread_id": "2"}}, stream_mode="updates"):
    print(chunk)
print(calls)


async def hang(state: State):
    await asyncio.Event().wait()


hanging = StateGraph(State).add_node("hang", hang, timeout=0.01).add_edge(START, "hang").compile()
try:
    asyncio.run(hanging.ainvoke({"x": 1}))
except NodeTimeoutError as error:
    print(type(error).__name__, error.node)

loop = StateGraph(State).add_node("again", lambda state: {"x": state["x"] + 1})
loop.add_edge(START, "again").add_edge("again", "again")
try:
    loop.compile().invoke({"x": 0}, {"recursion_limit": 5})
except GraphRecursionError as error:
    print(type(error).__name__)
