"""Graphs with subgraphs."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from .cases_asking import asks, one
from .cases_flow import State, chain, says
from .driving import Case, answer, answer_each, answer_some, cases_of, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)


class Other(TypedDict, total=False):
    y: int
    notes: Annotated[list, operator.add]


class Logged(TypedDict, total=False):
    log: Annotated[list, operator.add]


class Shared(TypedDict, total=False):
    x: int
    secret: str


@case(start({"x": 1}))
def a_graph_as_a_node(engine: Engine) -> Any:
    graph = chain(engine, "p")
    graph.add_node("sub", chain(engine, "ca", "cb").compile()).add_node("q", says("q"))
    return graph.add_edge("p", "sub").add_edge("sub", "q")


@case(start({"x": 1}))
def a_graph_as_a_node_sharing_one_key(engine: Engine) -> Any:
    child = engine.StateGraph(Shared)
    child.add_node("c", lambda s: {"secret": "s", "x": s["x"] + 1}).add_edge(engine.START, "c")
    graph = chain(engine, "p")
    return graph.add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({"x": 1}))
def a_graph_called_in_a_node(engine: Engine) -> Any:
    child = engine.StateGraph(Other).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"y": s["y"] + 1, "notes": ["c"]})
    inner = child.compile()
    return one(engine, lambda s: {"x": inner.invoke({"y": s["x"]})["y"]}, "b")


@case(start({"x": 1}))
def a_graph_called_twice_in_a_node(engine: Engine) -> Any:
    child = engine.StateGraph(Other).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"y": s["y"] + 1, "notes": ["c"]})
    inner = child.compile()

    def call(state: State) -> dict[str, Any]:
        first = inner.invoke({"y": state["x"]})["y"]
        return {"x": inner.invoke({"y": first})["y"]}

    return one(engine, call)


@case(start({"x": 1}))
def a_graph_in_a_graph_in_a_graph(engine: Engine) -> Any:
    lowest = chain(engine, "l").compile()
    middle = chain(engine, "m").add_node("low", lowest).add_edge("m", "low").compile()
    return chain(engine, "t").add_node("mid", middle).add_edge("t", "mid")


@case(start({"x": 1}), answer("yes"))
def the_child_asks(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?"), "cb")
    graph = chain(engine, "p")
    graph.add_node("sub", child.compile()).add_node("q", says("q"))
    return graph.add_edge("p", "sub").add_edge("sub", "q")


@case(start({"x": 1}), answer("A"), answer("B"))
def the_child_asks_twice(engine: Engine) -> Any:
    child = one(engine, asks(engine, "one?", "two?"), "cb")
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({"x": 1}), answer("A"), answer("B"))
def two_nodes_of_the_child_ask(engine: Engine) -> Any:
    child = one(engine, asks(engine, "one?")).add_node("b", asks(engine, "two?"))
    child.add_edge("a", "b")
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({"x": 1}), answer_each(lambda v: v + "!"))
def two_nodes_of_the_child_ask_at_once(engine: Engine) -> Any:
    child = one(engine, asks(engine, "one?")).add_node("b", asks(engine, "two?"))
    child.add_edge(engine.START, "b")
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({"x": 1}), answer_some("two?"), answer_some("one?"))
def two_nodes_of_the_child_answered_one_by_one(engine: Engine) -> Any:
    child = one(engine, asks(engine, "one?")).add_node("b", asks(engine, "two?"))
    child.add_edge(engine.START, "b")
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({}), answer_each(lambda v: v + "!"))
def parallel_children_ask(engine: Engine) -> Any:
    graph = chain(engine, "p", state=Logged).add_node("z", says("z"))
    for name in ("s1", "s2"):
        child = one(engine, asks(engine, f"{name}?"), "after", state=Logged)
        graph.add_node(name, child.compile()).add_edge("p", name).add_edge(name, "z")
    return graph


@case(start({}), answer_some("s2?"), answer_some("s1?"))
def parallel_children_answered_one_by_one(engine: Engine) -> Any:
    graph = chain(engine, "p", state=Logged).add_node("z", says("z"))
    for name in ("s1", "s2"):
        child = one(engine, asks(engine, f"{name}?"), "after", state=Logged)
        graph.add_node(name, child.compile()).add_edge("p", name).add_edge(name, "z")
    return graph


@case(start({"x": 1}), answer("deep"))
def the_grandchild_asks(engine: Engine) -> Any:
    lowest = one(engine, asks(engine, "low?"), "after").compile()
    middle = chain(engine, "m").add_node("low", lowest).add_edge("m", "low").compile()
    return chain(engine, "t").add_node("mid", middle).add_edge("t", "mid")


@case(start({"x": 1}), answer("child"), answer("parent"))
def child_and_parent_ask(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?"))
    graph = chain(engine, "p").add_node("sub", child.compile())
    graph.add_node("q", asks(engine, "parent?"))
    return graph.add_edge("p", "sub").add_edge("sub", "q")


@case(start({"x": 1}), answer("yes"))
def a_called_child_asks(engine: Engine) -> Any:
    inner = one(engine, asks(engine, "child?")).compile()

    def call(state: State) -> dict[str, Any]:
        return {"log": inner.invoke({"x": state["x"], "log": []})["log"], "x": state["x"] + 1}

    return one(engine, call, "b")


@case(start({"x": 1}), answer("yes"))
def a_called_child_counts_what_runs_again(engine: Engine) -> Any:
    counts = {"parent": 0, "child": 0, "before": 0}

    def before(state: State) -> dict[str, Any]:
        counts["before"] += 1
        return {"log": ["before"]}

    def ask(state: State) -> dict[str, Any]:
        counts["child"] += 1
        return {"log": [engine.interrupt("child?")]}

    child = engine.StateGraph(State).add_node("before", before).add_node("ask", ask)
    inner = child.add_edge(engine.START, "before").add_edge("before", "ask").compile()

    def call(state: State) -> dict[str, Any]:
        counts["parent"] += 1
        return {"log": [*inner.invoke({"x": 1})["log"], dict(counts)]}

    return one(engine, call)


@case(start({"x": 1}), answer("parent"), answer("child"))
def a_node_asks_and_then_its_child(engine: Engine) -> Any:
    inner = one(engine, asks(engine, "child?")).compile()

    def call(state: State) -> dict[str, Any]:
        first = engine.interrupt("parent?")
        return {"log": [first, *inner.invoke({"x": 1, "log": []})["log"]]}

    return one(engine, call)


@case(start({"x": 1}), answer("child"), answer("parent"))
def a_child_asks_and_then_its_node(engine: Engine) -> Any:
    inner = one(engine, asks(engine, "child?")).compile()

    def call(state: State) -> dict[str, Any]:
        given = inner.invoke({"x": 1, "log": []})["log"]
        return {"log": [*given, engine.interrupt("parent?")]}

    return one(engine, call)


@case(start({"x": 1}), answer("one"), answer("two"))
def a_node_calls_two_children_that_ask(engine: Engine) -> Any:
    first = one(engine, asks(engine, "one?")).compile()
    second = one(engine, asks(engine, "two?")).compile()

    def call(state: State) -> dict[str, Any]:
        given = first.invoke({"x": 1, "log": []})["log"]
        return {"log": given + second.invoke({"x": 1, "log": []})["log"]}

    return one(engine, call)


@case(start({}), answer_each(lambda v: f"{v}!"))
def sent_children_ask(engine: Engine) -> Any:
    child = engine.StateGraph(Logged).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"log": [engine.interrupt(f"child {s['log']}?")]})
    graph = chain(engine, "p", state=Logged).add_node("sub", child.compile())
    return graph.add_conditional_edges(
        "p", lambda s: [engine.Send("sub", {"log": [i]}) for i in range(2)], ["sub"]
    )


@case(start({"x": 1}), go_on())
def the_child_fails(engine: Engine) -> Any:
    child = one(engine, lambda s: 1 / 0)
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({"x": 1}), go_on())
def the_child_fails_once_and_goes_on_where_it_was(engine: Engine) -> Any:
    counts = {"before": 0, "flaky": 0}

    def before(state: State) -> dict[str, Any]:
        counts["before"] += 1
        return {"log": ["before"]}

    def flaky(state: State) -> dict[str, Any]:
        counts["flaky"] += 1
        if counts["flaky"] == 1:
            raise OSError("down")
        return {"log": [dict(counts)]}

    child = engine.StateGraph(State).add_node("before", before).add_node("flaky", flaky)
    child.add_edge(engine.START, "before").add_edge("before", "flaky")
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


@case(start({"x": 1}))
def a_command_to_the_parent(engine: Engine) -> Any:
    child = engine.StateGraph(State).add_edge(engine.START, "c")
    child.add_node(
        "c",
        lambda s: engine.Command(
            graph=engine.Command.PARENT, goto="z", update={"log": ["from the child"]}
        ),
    )
    graph = engine.StateGraph(State).add_node("sub", child.compile()).add_node("z", says("z"))
    return graph.add_edge(engine.START, "sub")


@case(start({"x": 1}))
def a_command_to_the_parent_beside_an_edge(engine: Engine) -> Any:
    child = engine.StateGraph(State).add_edge(engine.START, "c")
    child.add_node("c", lambda s: engine.Command(graph=engine.Command.PARENT, goto="z"))
    graph = engine.StateGraph(State).add_node("sub", child.compile())
    graph.add_node("z", says("z")).add_node("y", says("y"))
    return graph.add_edge(engine.START, "sub").add_edge("sub", "y")


@case(start({"x": 1}), answer("A"), start({"x": 2}), answer("B"))
def a_child_starts_afresh_in_each_run(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?"), "cb")
    return engine.StateGraph(State).add_node("sub", child.compile()).add_edge(engine.START, "sub")


@case(start({"x": 1}), start({"x": 2}))
def a_child_that_keeps_its_own_history(engine: Engine) -> Any:
    child = engine.StateGraph(Other).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"notes": ["c"], "y": len(s.get("notes", []))})
    inner = child.compile(checkpointer=True)
    return one(engine, lambda s: {"log": [inner.invoke({"y": 0})]})


@case(start({"x": 1}), answer("A"), start({"x": 2}), answer("B"))
def a_child_with_its_own_history_asks(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?"), "cb").compile(checkpointer=True)
    return engine.StateGraph(State).add_node("sub", child).add_edge(engine.START, "sub")


@case(start({"x": 1}, durability="async"))
def a_child_that_is_never_stored(engine: Engine) -> Any:
    child = chain(engine, "ca", "cb").compile(checkpointer=False)
    return chain(engine, "p").add_node("sub", child).add_edge("p", "sub")


@case(start({"x": 1}), answer("yes"))
def a_child_with_a_saver_of_its_own(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?")).compile(checkpointer=engine.InMemorySaver())
    return chain(engine, "p").add_node("sub", child).add_edge("p", "sub")


@case(start({"x": 1}), go_on(), go_on())
def a_child_with_a_breakpoint(engine: Engine) -> Any:
    child = chain(engine, "ca", "cb").compile(interrupt_before=["cb"])
    return chain(engine, "p").add_node("sub", child).add_edge("p", "sub")


@case(start({"x": 0}), answer("one"), answer("two"))
def a_child_in_a_loop_asks_each_time(engine: Engine) -> Any:
    child = engine.StateGraph(State).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"x": s["x"] + 1, "log": [engine.interrupt(s["x"])]})
    graph = engine.StateGraph(State).add_node("sub", child.compile())
    graph.add_edge(engine.START, "sub")
    return graph.add_conditional_edges(
        "sub", lambda s: "sub" if s["x"] < 2 else engine.END, ["sub", engine.END]
    )


@case(start({"x": 1}))
def a_child_run_of_its_own_thread(engine: Engine) -> Any:
    inner = chain(engine, "ca").compile(checkpointer=engine.InMemorySaver())

    def call(state: State) -> dict[str, Any]:
        own = {"configurable": {"thread_id": "other"}}
        return {"log": inner.invoke({"x": 5, "log": []}, own)["log"]}

    return one(engine, call)


@case(start({"x": 1}, subgraphs=True), answer("yes", subgraphs=True), ways=("stream", "astream"))
def a_child_is_heard_in_the_stream(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?"), "cb")
    return chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")


def stops(engine: Engine) -> Any:
    """Return a compiled graph with a breakpoint."""
    return chain(engine, "ca", "cb").compile(interrupt_before=["cb"])


@case(start({"log": []}, subgraphs=True), go_on(subgraphs=True), ways=("stream", "astream"))
def a_breakpoint_two_levels_down(engine: Engine) -> Any:
    child = engine.StateGraph(Logged).add_node("deep", stops(engine)).add_edge(engine.START, "deep")
    graph = engine.StateGraph(Logged).add_node("sub", child.compile())
    return graph.add_edge(engine.START, "sub")


@case(start({"log": []}), go_on())
def breakpoints_side_by_side(engine: Engine) -> Any:
    graph = engine.StateGraph(Logged).add_node("a", stops(engine)).add_node("b", stops(engine))
    return graph.add_edge(engine.START, "a").add_edge(engine.START, "b")


@case(start({"log": []}), answer("yes"))
def a_breakpoint_beside_an_interrupt(engine: Engine) -> Any:
    graph = engine.StateGraph(Logged).add_node("sub", stops(engine))
    graph.add_node("ask", lambda s: {"log": [engine.interrupt("?")]})
    return graph.add_edge(engine.START, "sub").add_edge(engine.START, "ask")
