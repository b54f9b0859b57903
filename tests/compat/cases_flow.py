"""Graphs without interrupts."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from .driving import Case, cases_of, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)


class State(TypedDict, total=False):
    x: int
    log: Annotated[list, operator.add]


def says(name: str, **also: Any) -> Any:
    """Return a node that logs its name."""
    return lambda state: {"log": [name], **also}


def chain(engine: Engine, *names: str, state: Any = State) -> Any:
    """Return a graph with sequential nodes that log their names."""
    graph = engine.StateGraph(state)
    for name in names:
        graph.add_node(name, says(name))
    graph.add_edge(engine.START, names[0])
    for one, next_one in pairwise(names):
        graph.add_edge(one, next_one)
    return graph


@case(start({"x": 1}))
def one_node(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1}), start({"x": 5}))
def three_nodes_run_twice(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c").add_edge("c", engine.END)


@case(start({"x": 1}), start({}), start({"log": ["i"]}))
def an_empty_dict_is_input(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start(None))
def none_is_no_input(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1}), go_on(), go_on())
def nothing_more_to_run(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1, "unknown": 2}))
def unknown_input_keys_are_dropped(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1}))
def unknown_output_keys_are_dropped(engine: Engine) -> Any:
    graph = chain(engine, "a", "b")
    graph.add_node("c", lambda state: {"unknown": 1, "log": ["c"]})
    return graph.add_edge("b", "c")


@case(start({"x": 1}))
def nodes_that_write_nothing(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("none", lambda state: None).add_node("empty", lambda state: {})
    return graph.add_edge("a", "none").add_edge("none", "empty")


@case(start({"x": 1}))
def a_node_that_returns_a_number(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("bad", lambda state: 5)
    return graph.add_edge("a", "bad")


@case(start({"x": 1}))
def a_node_that_returns_a_list(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("bad", lambda state: ["x"])
    return graph.add_edge("a", "bad")


@case(start({"x": 1}))
def fan_out_and_join(engine: Engine) -> Any:
    graph = chain(engine, "a")
    for name in "bcd":
        graph.add_node(name, says(name)).add_edge("a", name)
    graph.add_node("join", says("join"))
    return graph.add_edge(["b", "c", "d"], "join").add_edge("join", engine.END)


@case(start({"x": 1}))
def fan_out_without_a_join(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("z", says("z"))
    for name in "bcd":
        graph.add_node(name, says(name)).add_edge("a", name).add_edge(name, "z")
    return graph


@case(start({"x": 1}))
def branches_of_different_length(engine: Engine) -> Any:
    graph = chain(engine, "a", "b", "c", "z")
    graph.add_node("short", says("short"))
    return graph.add_edge("a", "short").add_edge("short", "z")


@case(start({"x": 1}), start({"x": 2}))
def join_of_branches_of_different_length(engine: Engine) -> Any:
    graph = chain(engine, "a", "b", "c")
    graph.add_node("short", says("short")).add_node("join", says("join"))
    graph.add_edge("a", "short")
    return graph.add_edge(["short", "c"], "join")


@case(start({"x": 0}))
def a_join_inside_a_loop(engine: Engine) -> Any:
    graph = chain(engine, "a")
    for name in "bc":
        graph.add_node(name, says(name)).add_edge("a", name)
    graph.add_node("join", lambda state: {"x": state["x"] + 1, "log": ["join"]})
    graph.add_edge(["b", "c"], "join")
    return graph.add_conditional_edges(
        "join", lambda state: "a" if state["x"] < 3 else engine.END, ["a", engine.END]
    )


@case(start({"x": 1}))
def two_entries(engine: Engine) -> Any:
    graph = chain(engine, "a", "b")
    graph.add_node("c", says("c"))
    return graph.add_edge(engine.START, "c")


@case(start({"x": 1}))
def the_same_edge_twice(engine: Engine) -> Any:
    return chain(engine, "a", "b").add_edge("a", "b")


@case(start({"x": 1}), leaves_out=("state", "record"), differs="a broken step can be looked at")
def two_writers_of_one_key(engine: Engine) -> Any:
    graph = chain(engine, "a")
    for name in "bc":
        graph.add_node(name, says(name, x=ord(name))).add_edge("a", name)
    return graph


@case(start({"x": 1}), go_on())
def a_node_fails(engine: Engine) -> Any:
    def bad(state: State) -> None:
        raise ValueError("no")

    graph = chain(engine, "a")
    graph.add_node("bad", bad)
    return graph.add_edge("a", "bad")


@case(start({"x": 1}), start({"x": 2}))
def new_input_after_a_failure(engine: Engine) -> Any:
    def bad(state: State) -> dict[str, Any]:
        if state["x"] == 1:
            raise ValueError("one")
        return {"log": ["fine"]}

    graph = chain(engine, "a")
    graph.add_node("bad", bad)
    return graph.add_edge("a", "bad")


@case(start({"x": 1}), go_on())
def the_first_node_fails_once(engine: Engine) -> Any:
    calls: list[int] = []

    def flaky(state: State) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return {"log": [f"call {len(calls)}"]}

    graph = engine.StateGraph(State)
    return graph.add_node("flaky", flaky).add_edge(engine.START, "flaky")


@case(start({"x": 0}))
def a_loop_with_a_counter(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", lambda state: {"x": state["x"] + 1, "log": [state["x"]]})
    graph.add_edge(engine.START, "a")
    return graph.add_conditional_edges("a", lambda s: "a" if s["x"] < 4 else engine.END)


@case(start({"x": 1}), config={"recursion_limit": 4})
def the_step_limit(engine: Engine) -> Any:
    return chain(engine, "a").add_edge("a", "a")


@case(start({"x": 1}), go_on(), config={"recursion_limit": 2})
def going_on_after_the_step_limit(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c", "d", "e")


@case(start({"x": 1}), config={"recursion_limit": 3})
def the_step_limit_just_enough(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(start({"x": 1}), config={"recursion_limit": 0})
def a_step_limit_of_zero(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1}), start({"x": 2}), start({"x": 3}))
def a_branch_by_name(engine: Engine) -> Any:
    def route(state: State) -> Literal["b", "c", "__end__"]:
        return {1: "b", 2: "c"}.get(state["x"], "__end__")  # type: ignore[return-value]

    graph = chain(engine, "a")
    graph.add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_conditional_edges("a", route)


@case(start({"x": 1}), start({"x": 2}))
def a_branch_with_a_map(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_conditional_edges("a", lambda s: s["x"] == 1, {True: "b", False: "c"})


@case(start({"x": 1}))
def a_branch_to_several(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_conditional_edges("a", lambda s: ["b", "c"], ["b", "c"])


@case(start({"x": 1}))
def a_branch_sees_what_its_node_wrote(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", lambda s: {"x": s["x"] + 10, "log": ["a"]})
    graph.add_node("b", says("b")).add_node("c", says("c"))
    graph.add_edge(engine.START, "a")
    return graph.add_conditional_edges("a", lambda s: "b" if s["x"] > 10 and s["log"] else "c")


@case(start({"x": 1}))
def a_branch_does_not_see_a_sibling(engine: Engine) -> Any:
    seen: list[Any] = []
    graph = engine.StateGraph(State)
    graph.add_node("a", says("a")).add_node("b", says("b")).add_node("c", says("c"))
    graph.add_edge(engine.START, "a").add_edge(engine.START, "b")
    graph.add_conditional_edges("a", lambda s: seen.append(s["log"]) or "c", ["c"])
    graph.add_node("d", lambda s: {"log": [str(seen)]})
    return graph.add_edge("c", "d")


@case(
    start({"x": 1}),
    ways=("invoke", "ainvoke"),
    leaves_out=("state", "record"),
    differs="a failed branch fails its node",
)
def a_branch_that_fails(engine: Engine) -> Any:
    return chain(engine, "a").add_conditional_edges("a", lambda s: 1 / 0, ["a"])


@case(
    start({"x": 1}),
    ways=("invoke", "ainvoke"),
    leaves_out=("state", "record"),
    differs="a failed branch fails its node",
)
def a_branch_to_none(engine: Engine) -> Any:
    return chain(engine, "a").add_conditional_edges("a", lambda s: None)


@case(
    start({"x": 1}),
    ways=("invoke", "ainvoke"),
    leaves_out=("state", "record"),
    differs="a failed branch fails its node",
)
def a_branch_to_start(engine: Engine) -> Any:
    return chain(engine, "a").add_conditional_edges("a", lambda s: engine.START)


@case(
    start({"x": 1}),
    ways=("invoke", "ainvoke"),
    leaves_out=("state", "record"),
    differs="a failed branch fails its node",
)
def a_branch_beyond_its_map(engine: Engine) -> Any:
    return chain(engine, "a").add_conditional_edges("a", lambda s: "q", {"b": engine.END})


@case(start({"x": 1}), start({"x": 2}))
def a_branch_at_the_entry(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", says("a")).add_node("b", says("b"))
    return graph.add_conditional_edges(
        engine.START, lambda s: "a" if s["x"] == 1 else "b", ["a", "b"]
    )


@case(start({"x": 1}))
def two_branches_at_one_node(engine: Engine) -> Any:
    def first(state: State) -> str:
        return "b"

    def second(state: State) -> str:
        return "c"

    graph = chain(engine, "a")
    graph.add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_conditional_edges("a", first).add_conditional_edges("a", second)


@case(start({"x": 1}))
def a_branch_beside_an_edge(engine: Engine) -> Any:
    graph = chain(engine, "a", "b")
    graph.add_node("c", says("c"))
    return graph.add_conditional_edges("a", lambda s: "c", ["c"])


@case(start({"x": 1}))
def entry_and_finish_points(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", says("a")).add_node("b", says("b"))
    graph.set_entry_point("a").add_edge("a", "b")
    return graph.set_finish_point("b")


@case(start({"x": 1}))
def a_sequence(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_sequence([("a", says("a")), ("b", says("b")), ("c", says("c"))])
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}))
def a_deferred_node(engine: Engine) -> Any:
    graph = chain(engine, "a", "b", "b2")
    graph.add_node("d", says("d"), defer=True)
    return graph.add_edge("a", "d").add_edge("b2", "d")


@case(start({"x": 1}))
def two_deferred_nodes_in_a_row(engine: Engine) -> Any:
    graph = chain(engine, "a", "b", "c")
    graph.add_node("d", says("d"), defer=True).add_node("e", says("e"), defer=True)
    return graph.add_edge("a", "d").add_edge("d", "e").add_edge("a", "e")


@case(start({"x": 1}), start({"x": 2}))
def a_deferred_join(engine: Engine) -> Any:
    graph = chain(engine, "a")
    for name in ("b", "c", "other", "other2"):
        graph.add_node(name, says(name))
    graph.add_node("join", says("join"), defer=True)
    graph.add_edge("a", "b").add_edge("a", "c").add_edge("a", "other").add_edge("other", "other2")
    return graph.add_edge(["b", "c"], "join")


@case(start({"x": 1}), go_on(), go_on(), go_on(), interrupt_before=["b"], interrupt_after=["b"])
def breakpoints_before_and_after(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(start({"x": 1}), go_on(), go_on(), go_on(), interrupt_before="*")
def breakpoints_before_all(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(start({"x": 1}), go_on(), go_on(), go_on(), interrupt_after="*")
def breakpoints_after_all(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(start({"x": 1}, interrupt_before=["c"]), go_on(interrupt_after=["c"]), go_on())
def breakpoints_of_one_call(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c", "d")


@case(start({"x": 1}), start({"x": 2}), go_on(), interrupt_before=["b"])
def new_input_at_a_breakpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start({"x": 1}), go_on(), interrupt_before=["b"])
def a_breakpoint_beside_another_branch(engine: Engine) -> Any:
    graph = chain(engine, "a", "b")
    graph.add_node("c", says("c")).add_node("c2", says("c2"))
    return graph.add_edge("a", "c").add_edge("c", "c2")


@case(start({"x": 0}), go_on(), go_on(), interrupt_after=["a"])
def a_breakpoint_in_a_loop(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", lambda state: {"x": state["x"] + 1, "log": [state["x"]]})
    graph.add_edge(engine.START, "a")
    return graph.add_conditional_edges("a", lambda s: "a" if s["x"] < 3 else engine.END)
