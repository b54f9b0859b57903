"""Graphs whose nodes jump and send, and Commands as input."""

from __future__ import annotations

from typing import Any, Literal

from .cases_flow import State, chain, says
from .driving import Case, cases_of, command, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)


@case(start({"x": 1}))
def goto_adds_to_the_edges(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node(
        "a", lambda s: engine.Command(update={"log": ["a"]}, goto="c"), destinations=("c",)
    )
    graph.add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_edge(engine.START, "a").add_edge("a", "b")


@case(start({"x": 1}))
def goto_without_an_update(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: engine.Command(goto="b"), destinations=("b",))
    return graph.add_node("b", says("b"))


@case(start({"x": 1}))
def goto_several(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: engine.Command(goto=["b", "c"]), destinations=("b", "c"))
    return graph.add_node("b", says("b")).add_node("c", says("c"))


@case(start({"x": 1}))
def goto_end_starts_nothing(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: engine.Command(update={"log": ["a"]}, goto=engine.END))
    return graph


@case(start({"x": 1}))
def goto_with_sends_and_names(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node(
        "a",
        lambda s: engine.Command(
            goto=["b", engine.Send("w", {"i": 1}), engine.Send("w", {"i": 2})]
        ),
        destinations=("b", "w"),
    )
    graph.add_node("w", lambda arg: {"log": [arg]})
    return graph.add_node("b", says("b"))


@case(start({"x": 1}))
def goto_one_send(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: engine.Command(goto=engine.Send("w", 3)), destinations=("w",))
    return graph.add_node("w", lambda arg: {"log": [arg]})


@case(start({"x": 1}))
def goto_itself_a_few_times(engine: Engine) -> Any:
    def again(state: State) -> Any:
        if state["x"] >= 4:
            return engine.Command(goto=engine.END, update={"log": ["end"]})
        return engine.Command(goto="a", update={"x": state["x"] + 1, "log": [state["x"]]})

    return engine.StateGraph(State).add_node("a", again).add_edge(engine.START, "a")


@case(start({"x": 1}))
def an_update_as_pairs(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    return graph.add_node(
        "a", lambda s: engine.Command(update=[("log", ["one"]), ("log", ["two"]), ("x", 3)])
    )


@case(start({"x": 1}))
def commands_and_dicts_in_one_list(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: [engine.Command(update={"log": ["1"]}, goto="b"), {"log": ["2"]}])
    return graph.add_node("b", says("b"))


@case(start({"x": 1}))
def a_list_of_commands(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node(
        "a",
        lambda s: [
            engine.Command(update={"log": ["1"]}, goto="b"),
            engine.Command(update={"log": ["2"], "x": 5}, goto="c"),
        ],
    )
    return graph.add_node("b", says("b")).add_node("c", says("c"))


@case(start({"x": 1}))
def a_command_and_a_branch(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: engine.Command(update={"x": 5}, goto="b"))
    graph.add_node("b", says("b")).add_node("c", says("c")).add_node("d", says("d"))
    return graph.add_conditional_edges("a", lambda s: "c" if s["x"] == 5 else "d", ["c", "d"])


@case(start({"x": 1}))
def sends(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [arg["i"]]}).add_edge("w", engine.END)
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", {"i": i}) for i in range(3)], ["w"]
    )


@case(start({"x": 1}))
def sends_then_a_node(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [arg]}).add_node("z", says("z")).add_edge("w", "z")
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", i) for i in range(3)], ["w"]
    )


@case(start({"x": 1}))
def sends_and_a_name(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [arg]}).add_node("b", says("b"))
    return graph.add_conditional_edges(
        "a", lambda s: ["b", engine.Send("w", 1), engine.Send("b", {"x": 2})], ["w", "b"]
    )


@case(start({"x": 1}))
def no_sends(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [arg]})
    return graph.add_conditional_edges("a", lambda s: [], ["w"])


@case(start({"x": 1}))
def twelve_sends_keep_their_order(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [arg]})
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", i) for i in range(12)], ["w"]
    )


@case(start({"x": 1}))
def sends_of_two_nodes(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("w", lambda arg: {"log": [arg]})
    for name in ("b", "a"):
        graph.add_node(name, says(name)).add_edge(engine.START, name)
        graph.add_conditional_edges(
            name, lambda s, name=name: [engine.Send("w", f"{name}{i}") for i in range(2)], ["w"]
        )
    return graph


@case(start({"x": 0}))
def sent_tasks_that_send(engine: Engine) -> Any:
    def work(arg: int) -> Any:
        return engine.Command(
            update={"log": [arg]}, goto=[engine.Send("w", arg - 1)] if arg else []
        )

    graph = chain(engine, "a").add_node("w", work, destinations=("w",))
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", 2), engine.Send("w", 1)], ["w"]
    )


@case(start({"x": 0}))
def sends_at_the_entry(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_node("w", lambda arg: {"log": [arg]})
    return graph.add_conditional_edges(
        engine.START, lambda s: [engine.Send("w", i) for i in range(2)], ["w"]
    )


@case(
    start({"x": 0}),
    ways=("invoke", "ainvoke"),
    leaves_out=("state", "record"),
    differs="a failed branch fails its node",
)
def a_send_to_end(engine: Engine) -> Any:
    return chain(engine, "a").add_conditional_edges("a", lambda s: [engine.Send(engine.END, 1)])


@case(start({"x": 0}), go_on())
def a_sent_task_fails(engine: Engine) -> Any:
    def work(arg: int) -> dict[str, Any]:
        if arg == 1:
            raise ValueError("one")
        return {"log": [arg]}

    graph = chain(engine, "a").add_node("w", work)
    return graph.add_conditional_edges("a", lambda s: [engine.Send("w", 1)], ["w"])


@case(start({"x": 1}))
def declared_targets(engine: Engine) -> Any:
    def a(state: State) -> Any:
        return engine.Command(goto="b")

    a.__annotations__["return"] = engine.Command[Literal["b", "__end__"]]
    graph = engine.StateGraph(State).add_node("a", a).add_edge(engine.START, "a")
    return graph.add_node("b", says("b"))


@case(
    start({"x": 1}),
    command(update={"x": 9}, goto="b"),
    leaves_out=("record",),
    differs="a jump is on record",
)
def a_jump_as_input_on_a_finished_thread(engine: Engine) -> Any:
    graph = chain(engine, "a")
    return graph.add_node("b", lambda s: {"log": [f"b{s['x']}"]})


@case(
    start({"x": 1}),
    command(goto="c"),
    go_on(),
    interrupt_before=["b"],
    leaves_out=("record",),
    differs="a jump is on record",
)
def a_jump_as_input_at_a_breakpoint(engine: Engine) -> Any:
    graph = chain(engine, "a", "b")
    return graph.add_node("c", says("c"))


@case(
    start({"x": 1}), command(goto=["b", "c"]), leaves_out=("record",), differs="a jump is on record"
)
def a_jump_to_several_as_input(engine: Engine) -> Any:
    graph = chain(engine, "a")
    return graph.add_node("b", says("b")).add_node("c", says("c"))


@case(
    start({"x": 1}),
    command(goto=lambda engine: [engine.Send("w", 7), engine.Send("w", 8)]),
    leaves_out=("record",),
    differs="a jump is on record",
)
def sends_as_input(engine: Engine) -> Any:
    return chain(engine, "a").add_node("w", lambda arg: {"log": [arg]})


@case(start({"x": 1}), command(update={"x": 9}))
def an_update_as_input_on_a_finished_thread(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1}), command(update={"x": 9}), go_on(), interrupt_before=["b"])
def an_update_as_input_at_a_breakpoint(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("b", lambda s: {"log": [s["x"]]})
    return graph.add_edge("a", "b")


@case(start({"x": 1}), command(graph="__parent__", goto="a"))
def a_command_to_no_parent(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start({"x": 1}), command(goto=5))
def a_jump_to_a_number(engine: Engine) -> Any:
    return chain(engine, "a")
