"""Long threads: the cost of storing a step, and of reading the state and the history."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from .workloads import Count, Once, check, on_thread

READS = 20
PAGE = 10


class Talk(TypedDict):
    """State of a graph that adds one message in each step.

    ``count`` is the number of steps.
    """

    messages: Annotated[list[dict[str, str]], operator.add]
    count: int


def _counting(e: Any, state: Any, node: Any, n: int, saver: Any) -> Any:
    """Return a graph whose only node runs n times."""
    graph = e.StateGraph(state).add_node("node", node).add_edge(e.START, "node")
    graph.add_conditional_edges("node", lambda seen: "node" if seen["count"] < n else e.END)
    return graph.compile(checkpointer=saver)


def messages(e: Any, n: int, saver: Any) -> Once:
    """Add n messages of about 150 bytes each to a new thread."""

    def node(state: Talk) -> dict[str, Any]:
        message = {"role": "user", "content": f"{state['count']:06} {'word ' * 24}"}
        return {"messages": [message], "count": state["count"] + 1}

    graph = _counting(e, Talk, node, n, saver)

    def once() -> int:
        done = graph.invoke({"messages": [], "count": 0}, on_thread(n), durability="sync")
        check(len(done["messages"]), n)
        return n

    return once


def _long_thread(e: Any, n: int, saver: Any) -> tuple[Any, Any]:
    """Return a graph, and the config of a thread with n steps and a small state."""
    graph = _counting(e, Count, lambda state: {"count": state["count"] + 1}, n, saver)
    config = on_thread(n)
    graph.invoke({"count": 0, "note": "x"}, config)
    return graph, config


def state(e: Any, n: int, saver: Any) -> Once:
    """Read the state of a thread with n steps."""
    graph, config = _long_thread(e, n, saver)

    def once() -> int:
        for _ in range(READS):
            check(graph.get_state(config).values["count"], n)
        return READS

    return once


def page(e: Any, n: int, saver: Any) -> Once:
    """Read the newest page of the history of a thread with n steps."""
    graph, config = _long_thread(e, n, saver)

    def once() -> int:
        for _ in range(READS):
            found = [one.values["count"] for one in graph.get_state_history(config, limit=PAGE)]
            check(found, list(range(n, n - len(found), -1)))
        return READS

    return once
