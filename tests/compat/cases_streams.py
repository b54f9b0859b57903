"""Streams in each mode, for nested graphs and all durabilities."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from .cases_asking import asks, one
from .cases_flow import State, chain, says
from .cases_subgraphs import Logged, stops
from .driving import Case, answer, answer_each, at, cases_of, go_on, start, update
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
STREAMS: Any = {"ways": ("stream", "astream")}
CALLED: Any = {"ways": ("invoke", "ainvoke")}
INPUT = {"x": 1, "log": ["in"]}


def telling(engine: Engine, name: str) -> Any:
    """Return a node that writes to the stream and logs its name."""

    def node(state: Any) -> Any:
        engine.get_stream_writer()(f"{name} is at it")
        return {"log": [name]}

    return node


def levels(engine: Engine, *, asking: bool = False) -> Any:
    """Return a graph with two levels of subgraphs, each of which writes to the stream."""
    lowest = engine.StateGraph(Logged).add_node("low", telling(engine, "low"))
    lowest.add_edge(engine.START, "low")
    if asking:
        lowest.add_node("ask", asks(engine, "deep?")).add_edge("low", "ask")
    middle = engine.StateGraph(Logged).add_node("mid", telling(engine, "mid"))
    middle.add_node("lower", lowest.compile()).add_edge(engine.START, "mid")
    middle.add_edge("mid", "lower")
    top = engine.StateGraph(Logged).add_node("top", telling(engine, "top"))
    top.add_node("middle", middle.compile()).add_edge(engine.START, "top")
    return top.add_edge("top", "middle")


def _each_mode() -> None:
    for mode in ("values", "updates", "custom", "tasks", "checkpoints", "debug", "messages"):
        for subgraphs in (False, True):

            def streamed(engine: Engine) -> Any:
                return levels(engine, asking=True)

            streamed.__name__ = f"{mode}_of_three_levels{'_with_subgraphs' * subgraphs}"
            how: Any = {"stream_mode": mode, "subgraphs": subgraphs}
            case(start({"log": []}, **how), answer("A", **how), **STREAMS)(streamed)


_each_mode()


@case(start(INPUT, stream_mode=[]), start(INPUT, stream_mode=["updates"]), **STREAMS)
def lists_of_none_and_of_one_mode(engine: Engine) -> Any:
    return chain(engine, "a")


@case(start(INPUT, stream_mode=["custom", "updates"]), **STREAMS)
def custom_chunks_of_a_called_graph_stay_below(engine: Engine) -> Any:
    inner = engine.StateGraph(Logged).add_node("low", telling(engine, "low"))
    child = inner.add_edge(engine.START, "low").compile()

    def call(state: Any) -> Any:
        engine.get_stream_writer()("before")
        return {"log": child.invoke({"log": []})["log"]}

    return one(engine, call)


@case(start(INPUT, subgraphs=True), **STREAMS)
def a_node_streams_a_graph_itself(engine: Engine) -> Any:
    inner = chain(engine, "ca", "cb").compile()

    def call(state: Any) -> Any:
        heard = list(inner.stream({"x": 1, "log": []}, stream_mode="updates"))
        return {"log": [sorted(chunk) for chunk in heard]}

    return one(engine, call)


@case(start(INPUT, stream_mode="custom"), start(INPUT, stream_mode=["custom"], subgraphs=True),
      **STREAMS)  # fmt: skip
def a_node_hears_what_a_graph_below_writes(engine: Engine) -> Any:
    inner = engine.StateGraph(Logged).add_node("low", telling(engine, "low"))
    child = inner.add_edge(engine.START, "low").compile()

    def call(state: Any) -> Any:
        return {"log": list(child.stream({"log": []}, stream_mode="custom"))}

    return one(engine, call)


@case(start(INPUT, output_keys="log", stream_mode="values"),
      start(INPUT, output_keys=["x"], stream_mode="updates"), **STREAMS)  # fmt: skip
def some_keys_are_streamed(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start(INPUT, output_keys="log"), start(INPUT, output_keys=["x"]), ways=("invoke", "ainvoke"))
def some_keys_are_returned(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start(INPUT, stream_mode="updates"), start(INPUT, stream_mode=["values", "updates"]),
      ways=("invoke", "ainvoke"))  # fmt: skip
def invoked_in_another_mode(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start(INPUT, stream_mode="values"), answer("A", stream_mode="values"), **STREAMS)
def values_around_an_interrupt(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(start(INPUT, stream_mode="updates"), answer_each(lambda v: "A", stream_mode="updates"),
      **STREAMS)  # fmt: skip
def updates_around_two_interrupts(engine: Engine) -> Any:
    graph = one(engine, asks(engine, "q1"), "b").add_node("c", asks(engine, "q2"))
    return graph.add_edge(engine.START, "c")


@case(start(INPUT), **STREAMS)
def tasks_that_write_nothing_or_twice(engine: Engine) -> Any:
    command = engine.Command(update=[("log", ["1"]), ("log", ["2"])])
    graph = chain(engine, "a").add_node("none", lambda s: None).add_edge("a", "none")
    return graph.add_node("twice", lambda s: command).add_edge("a", "twice")


@case(start(INPUT, stream_mode="updates"), **STREAMS)
def updates_of_jumps_and_sends(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda n: {"log": [n]})
    graph.add_node("j", lambda s: engine.Command(goto=[engine.Send("w", 1), "z"]))
    return graph.add_node("z", says("z")).add_edge("a", "j")


@case(start(INPUT, stream_mode="debug"), go_on(stream_mode="debug"), interrupt_before=["b"],
      **STREAMS)  # fmt: skip
def the_debug_mode_at_a_breakpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start({"log": []}, stream_mode="updates", subgraphs=True),
      go_on(stream_mode="updates", subgraphs=True), **STREAMS)  # fmt: skip
def updates_at_a_breakpoint_below(engine: Engine) -> Any:
    return engine.StateGraph(Logged).add_node("sub", stops(engine)).add_edge(engine.START, "sub")


@case(start(INPUT), at(1, go_on(stream_mode="values")), at(2, go_on(stream_mode="updates")),
      **STREAMS)  # fmt: skip
def a_replay_is_streamed(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start(INPUT), update({"log": ["u"]}, "a"), go_on(stream_mode="values"), **STREAMS)
def what_follows_an_update_is_streamed(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start(INPUT, stream_mode="messages", subgraphs=True), **STREAMS)
def messages_of_graphs_below(engine: Engine) -> Any:
    state = engine.MessagesState
    child = engine.StateGraph(state).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"messages": [AIMessage("below", id="b")]})
    graph = engine.StateGraph(state).add_node("sub", child.compile())
    graph.add_node("a", lambda s: {"messages": [AIMessage("above", id="a")]})
    return graph.add_edge(engine.START, "sub").add_edge("sub", "a")


def _each_durability() -> None:
    for durability in ("exit", "async"):
        how: Any = {"durability": durability}
        ways = ("invoke", "ainvoke") if durability == "exit" else ("invoke", "stream", "astream")
        name = f"stored_with_{durability}"

        def once(engine: Engine) -> Any:
            return chain(engine, "a", "b", "c")

        once.__name__ = f"a_chain_{name}"
        case(start(INPUT, **how), start({"x": 2}, **how), at(1, go_on(**how)), ways=ways)(once)

        def asked(engine: Engine) -> Any:
            return one(engine, asks(engine, "q"), "b")

        asked.__name__ = f"a_question_{name}"
        case(start(INPUT, **how), answer("A", **how), ways=ways)(asked)

        def failed(engine: Engine) -> Any:
            calls: list[int] = []

            def flaky(state: Any) -> Any:
                calls.append(1)
                if len(calls) == 1:
                    raise ValueError("once")
                return {"log": [len(calls)]}

            return chain(engine, "a").add_node("f", flaky).add_edge("a", "f")

        failed.__name__ = f"a_failure_{name}"
        case(start(INPUT, **how), go_on(**how), ways=ways)(failed)

        def stopped(engine: Engine) -> Any:
            return chain(engine, "a", "b", "c")

        stopped.__name__ = f"a_breakpoint_{name}"
        case(
            start(INPUT, **how),
            update({"log": ["u"]}),
            go_on(**how),
            ways=ways,
            interrupt_before=["c"],
        )(stopped)

        def below(engine: Engine) -> Any:
            return levels(engine, asking=True)

        below.__name__ = f"a_question_three_levels_down_{name}"
        case(start({"log": []}, **how), answer("A", **how), ways=ways)(below)

        def sent(engine: Engine) -> Any:
            graph = chain(engine, "a").add_node("w", lambda n: {"log": [engine.interrupt(n)]})
            graph.add_node("z", says("z")).add_edge("w", "z")
            return graph.add_conditional_edges(
                "a", lambda s: [engine.Send("w", n) for n in range(2)], ["w"]
            )

        sent.__name__ = f"sent_tasks_that_ask_{name}"
        case(start(INPUT, **how), answer_each(lambda n: n * 10, **how), ways=ways)(sent)

        def limited(engine: Engine) -> Any:
            return chain(engine, "a").add_edge("a", "a")

        limited.__name__ = f"the_step_limit_{name}"
        case(start(INPUT, **how), ways=ways, config={"recursion_limit": 3})(limited)


_each_durability()


@case(
    start(INPUT, durability="exit"),
    at(0, update({"log": ["u"]}, "a")),
    go_on(durability="exit"),
    **CALLED,
)
def an_update_of_what_was_stored_at_exit(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(start(INPUT, durability="exit"), answer("A", durability="sync"), start(INPUT), **CALLED)
def durability_changes_from_call_to_call(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(start({"x": 1}, durability="exit"), start({"x": 2}, durability="exit"), **CALLED)
def a_child_with_its_own_history_stored_at_exit(engine: Engine) -> Any:
    child = engine.StateGraph(State).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"log": [len(s.get("log", []))]})
    inner = child.compile(checkpointer=True)
    return one(engine, lambda s: {"log": [inner.invoke({"x": 0})["log"]]})
