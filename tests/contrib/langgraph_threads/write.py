"""Program that writes threads of all kinds with a release of LangGraph and one of its savers.

Each file in this directory was written once by the release in its name: ``pip install
langgraph==1.0.2 langgraph-checkpoint-sqlite``, and ``python write.py langgraph-1.0.2.sqlite``. The
files for PostgreSQL are dumps of a new database: ``pip install langgraph==1.0.2
langgraph-checkpoint-postgres==3.0.5 'psycopg[binary]'``, ``python write.py postgresql://…``, and
``pg_dump --inserts --no-owner --no-acl postgresql://… | grep -vE '^(--|SET |SELECT
pg_catalog|.(un)?restrict |$)'``. Release 0.2.60 was combined with saver 2.0.9, and 0.4.10 with
2.0.21. The module imports only LangGraph, so that any release can run it. Its graph can be built
for both engines.
"""

from __future__ import annotations

import operator
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

from typing_extensions import TypedDict


class State(TypedDict, total=False):
    """The state of the threads."""

    x: int
    log: Annotated[list, operator.add]


#: The nodes that have run in this process.
ran: list[str] = []


def build_graph(
    state_graph: Any,
    send: Any,
    interrupt: Any,
    *,
    before_failure: Callable[[], object] = lambda: None,
    **compiled: Any,
) -> Any:
    """Return a graph whose state key x selects the kind of interrupt.

    0: no interrupt; 1: two interrupts of a node; 2: an interrupt in a subgraph; 3: two Sends with
    interrupts; 4: a failure; 5: an interrupt without a concurrent node.
    ``before_failure`` is called before the failure.
    """

    def first(state: State) -> State:
        ran.append("first")
        return {"log": ["first"]}

    def route(state: State) -> Any:
        if state["x"] == 3:
            return [send("sent", {"x": n}) for n in (31, 32)] + ["beside"]
        ways = {0: ["end"], 1: ["ask", "beside"], 2: ["below", "beside"], 4: ["fail", "beside"]}
        return ways.get(state["x"], ["ask"])

    def ask(state: State) -> State:
        ran.append("ask")
        return {"log": [f"{interrupt({'text': 'one?'})} {interrupt({'text': 'two?'})}"]}

    def ask_below(state: State) -> State:
        ran.append("ask_below")
        return {"log": [f"below {interrupt({'text': 'below?'})}"]}

    def sent(state: State) -> State:
        ran.append("sent")
        return {"log": [f"{state['x']} {interrupt({'text': 'sent?', 'x': state['x']})}"]}

    def beside(state: State) -> State:
        ran.append("beside")
        return {"log": ["beside"]}

    def fail(state: State) -> State:
        ran.append("fail")
        before_failure()
        raise ValueError("no luck")

    below = state_graph(State).add_node("ask_below", ask_below)
    graph = state_graph(State)
    for node in (first, ask, sent, beside, fail):
        graph.add_node(node.__name__, node)
    graph.add_node("end", lambda state: {"log": ["end"]})
    below.add_edge("__start__", "ask_below")
    graph.add_node("below", below.compile())
    graph.add_edge("__start__", "first")
    graph.add_conditional_edges("first", route, ["ask", "below", "sent", "beside", "fail", "end"])
    return graph.compile(**compiled)


def write_threads(graph: Any, resume: Any) -> None:
    """Run a LangGraph graph in one thread for each kind."""
    asking = (("asks", 1), ("asks-again", 1), ("below", 2), ("sent", 3), ("alone", 5))
    for kind, x in (("ended", 0), *asking):
        graph.invoke({"x": x, "log": []}, {"configurable": {"thread_id": kind}})
    graph.invoke(resume("yes"), {"configurable": {"thread_id": "asks-again"}})
    try:
        graph.invoke({"x": 4, "log": []}, {"configurable": {"thread_id": "failed"}})
    except ValueError:
        pass


def write_by(saver: Any) -> None:
    """Write the threads with a saver."""
    from langgraph.graph import StateGraph
    from langgraph.types import Command, Send, interrupt

    # LangGraph stores the writes of a concurrent node only if the node ends before the failure.
    stored = threading.Event()
    put_writes = saver.put_writes

    def note_writes(config: Any, writes: Any, *rest: Any) -> None:
        put_writes(config, writes, *rest)
        if config["configurable"]["thread_id"] == "failed" and ("log", ["beside"]) in writes:
            stored.set()

    saver.put_writes = note_writes
    graph = build_graph(
        StateGraph,
        Send,
        interrupt,
        before_failure=lambda: stored.wait(60),
        checkpointer=saver,
    )
    write_threads(graph, lambda value: Command(resume=value))


def write_file(path: str) -> None:
    """Write a file of SqliteSaver."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA page_size = 512")
    write_by(SqliteSaver(connection))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM")
    connection.close()


def write_database(url: str) -> None:
    """Write a database of PostgresSaver."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        write_by(saver)


if __name__ == "__main__":
    (write_database if "://" in sys.argv[1] else write_file)(sys.argv[1])
