"""Batches of inputs, with configs bound in advance, and retries of a graph."""

import asyncio
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    n: int
    by: str


tried = []


def node(state: State, config) -> State:
    tried.append(state["n"])
    if state["n"] == 13 and tried.count(13) < 3:
        raise ValueError("unlucky")
    return {"n": state["n"] + 1, "by": config["configurable"].get("who", "nobody")}


builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
graph = builder.compile()

print(graph.batch([{"n": n} for n in range(3)]))
print(graph.with_config(configurable={"who": "ann"}).invoke({"n": 7}))
print(graph.with_config({"configurable": {"who": "bob"}}).batch([{"n": 1}, {"n": 2}]))
failed = graph.batch([{"n": 13}, {"n": 1}], return_exceptions=True)
print([repr(one) for one in failed])
print(graph.with_retry(stop_after_attempt=3, wait_exponential_jitter=False).invoke({"n": 13}))


async def main():
    print(await graph.abatch([{"n": 20}, {"n": 30}], config={"max_concurrency": 1}))
    found = [one async for one in graph.map().astream([{"n": 40}, {"n": 50}])]
    print(found[-1])


asyncio.run(main())

stored = builder.compile(checkpointer=InMemorySaver())
configs = [{"configurable": {"thread_id": str(n), "who": "cleo"}} for n in range(2)]
print(stored.batch([{"n": 5}, {"n": 6}], configs))
print([stored.get_state(config).values["n"] for config in configs])
