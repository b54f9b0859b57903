"""Nested graphs: separate histories, jumps to parents, breakpoints and interrupts in subgraphs."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from .cases_asking import asks, one
from .cases_flow import State, chain, says
from .cases_functional import Flow, asking
from .cases_subgraphs import Logged, Other
from .driving import Case, answer, answer_each, answer_some, cases_of, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
RUN = start({"x": 1, "log": ["in"]})
CALLED: Any = {"ways": ("invoke", "ainvoke")}


def above(engine: Engine, child: Any, *, state: Any = State) -> Any:
    """Return a graph with a node, a subgraph and a final node."""
    graph = engine.StateGraph(state).add_node("p", says("p")).add_node("sub", child)
    graph.add_node("z", says("z")).add_edge(engine.START, "p")
    return graph.add_edge("p", "sub").add_edge("sub", "z")


def nested(engine: Engine, graph: Any, depth: int) -> Any:
    """Return a graph nested in this number of graphs."""
    for _ in range(depth):
        graph = above(engine, graph.compile())
    return graph


def _at_depth(depth: int) -> None:
    def quiet(engine: Engine) -> Any:
        return nested(engine, chain(engine, "low"), depth)

    quiet.__name__ = f"a_graph_{depth}_levels_down"
    case(RUN, start({"x": 2}), **CALLED)(quiet)

    def asked(engine: Engine) -> Any:
        return nested(engine, one(engine, asks(engine, "one?", "two?")), depth)

    asked.__name__ = f"two_questions_{depth}_levels_down"
    case(RUN, answer("1"), answer("2"))(asked)

    def stopped(engine: Engine) -> Any:
        low = chain(engine, "la", "lb").compile(interrupt_before=["lb"])
        return nested(engine, above(engine, low), depth - 1)

    stopped.__name__ = f"a_breakpoint_{depth}_levels_down"
    case(RUN, go_on())(stopped)

    def failed(engine: Engine) -> Any:
        calls: list[int] = []

        def flaky(state: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise OSError("down")
            return {"log": ["worked"]}

        return nested(engine, one(engine, flaky), depth)

    failed.__name__ = f"a_failure_{depth}_levels_down"
    case(RUN, go_on())(failed)


for _depth in (2, 4):
    _at_depth(_depth)


def _stays(name: str, build: Any, *steps: Any) -> None:
    def kept(engine: Engine) -> Any:
        return above(engine, build(engine).compile(checkpointer=True))

    kept.__name__ = f"with_its_own_history_{name}"
    case(*steps)(kept)


_stays("it_runs_twice", lambda e: chain(e, "ca", "cb"), RUN, start({"x": 2}))
_stays("it_asks_in_each_run", lambda e: one(e, asks(e, "q")), RUN, answer("A"), RUN, answer("B"))
_stays("it_asks_twice", lambda e: one(e, asks(e, "q", "r"), "b"), RUN, answer("A"), answer("B"))
_stays("it_jumps", lambda e: one(e, lambda s: e.Command(goto="b", update={"x": 2}), "b"), RUN, RUN)
_stays("it_goes_up", lambda e: one(e, lambda s: e.Command(graph="__parent__", goto="z")), RUN, RUN)


@case(RUN, **CALLED)
def a_jump_to_the_parent_with_a_packet(engine: Engine) -> Any:
    def leave(state: Any) -> Any:
        sent = [engine.Send("w", 1), engine.Send("w", 2)]
        return engine.Command(graph=engine.Command.PARENT, goto=sent, update={"log": ["left"]})

    graph = above(engine, one(engine, leave).compile())
    return graph.add_node("w", lambda n: {"log": [n]})


@case(RUN, **CALLED)
def a_jump_to_the_parents_end(engine: Engine) -> Any:
    child = one(engine, lambda s: engine.Command(graph=engine.Command.PARENT, goto=engine.END))
    return above(engine, child.compile())


@case(RUN, **CALLED)
def a_jump_to_the_grandparent_by_way_of_the_parent(engine: Engine) -> Any:
    def up(goto: str) -> Any:
        return lambda s: engine.Command(
            graph=engine.Command.PARENT, goto=goto, update={"log": [f"to {goto}"]}
        )

    low = one(engine, up("m")).compile()
    middle = engine.StateGraph(State).add_node("low", low).add_node("m", up("t"))
    middle.add_edge(engine.START, "low")
    return above(engine, middle.compile()).add_node("t", says("t"))


@case(RUN, answer("yes"))
def a_interrupt_then_a_jump_to_the_parent(engine: Engine) -> Any:
    def leave(state: Any) -> Any:
        said = engine.interrupt("leave?")
        return engine.Command(graph=engine.Command.PARENT, goto="t", update={"log": [said]})

    return above(engine, one(engine, leave).compile()).add_node("t", says("t"))


@case(start({"log": []}), **CALLED)
def parallel_graphs_that_jump_to_the_parent(engine: Engine) -> Any:
    graph = engine.StateGraph(Logged).add_node("t", says("t"))
    for name in ("s1", "s2"):
        child = engine.StateGraph(Logged).add_edge(engine.START, "c")
        command = engine.Command(graph=engine.Command.PARENT, goto="t", update={"log": [name]})
        child.add_node("c", lambda s, command=command: command)
        graph.add_node(name, child.compile()).add_edge(engine.START, name)
    return graph


@case(start({"log": []}), answer_some("s1?"), answer_each(lambda v: v + "!"))
def interrupts_of_parallel_graphs_and_of_a_node(engine: Engine) -> Any:
    graph = engine.StateGraph(Logged).add_node("n", asks(engine, "n?")).add_node("z", says("z"))
    graph.add_edge(engine.START, "n").add_edge("n", "z")
    for name in ("s1", "s2"):
        child = one(engine, asks(engine, f"{name}?"), "after", state=Logged)
        graph.add_node(name, child.compile()).add_edge(engine.START, name).add_edge(name, "z")
    return graph


@case(start({"log": []}), answer_each(lambda v: 1), answer_each(lambda v: 2))
def sent_graphs_that_ask_twice(engine: Engine) -> Any:
    child = engine.StateGraph(Logged).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"log": [engine.interrupt("a?"), engine.interrupt("b?")]})
    graph = engine.StateGraph(Logged).add_node("p", says("p")).add_node("sub", child.compile())
    graph.add_edge(engine.START, "p")
    return graph.add_conditional_edges(
        "p", lambda s: [engine.Send("sub", {"log": [n]}) for n in range(2)], ["sub"]
    )


@case(RUN, **CALLED)
def a_graph_below_with_schemas_of_its_own(engine: Engine) -> Any:
    child = engine.StateGraph(Other, input_schema=State, output_schema=Logged)
    child.add_node("c", lambda s: {"y": s["x"], "notes": ["n"], "log": ["c"]}, input_schema=State)
    return above(engine, child.add_edge(engine.START, "c").compile())


@case(RUN, answer("yes"))
def a_graph_of_other_keys_is_called_and_asks(engine: Engine) -> Any:
    child = engine.StateGraph(Other).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"notes": [engine.interrupt(f"y is {s['y']}?")]})
    inner = child.compile()
    return one(engine, lambda s: {"log": inner.invoke({"y": s["x"]})["notes"]}, "b")


@case(RUN, go_on(), go_on(), interrupt_after=["sub"])
def breakpoints_below_and_after(engine: Engine) -> Any:
    return above(engine, chain(engine, "ca", "cb").compile(interrupt_after=["ca"]))


@case(RUN, answer("yes"), interrupt_before=["z"])
def a_interrupt_below_and_a_breakpoint_above(engine: Engine) -> Any:
    return above(engine, one(engine, asks(engine, "q")).compile())


@case(RUN, go_on())
def a_graph_below_is_tried_again(engine: Engine) -> Any:
    calls: list[int] = []

    def flaky(state: Any) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("down")
        return {"log": [len(calls)]}

    quick = engine.RetryPolicy(initial_interval=0.0001, jitter=False, max_attempts=4)
    graph = engine.StateGraph(State).add_node("sub", one(engine, flaky).compile(),
                                              retry_policy=quick)  # fmt: skip
    return graph.add_edge(engine.START, "sub")


@case(RUN, answer("A"))
def a_retried_node_below_that_asks(engine: Engine) -> Any:
    calls: list[int] = []

    def ask(state: Any) -> Any:
        said = engine.interrupt("q")
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("down")
        return {"log": [said, len(calls)]}

    quick = engine.RetryPolicy(initial_interval=0.0001, jitter=False, max_attempts=4)
    child = engine.StateGraph(State).add_node("a", ask, retry_policy=quick)
    return above(engine, child.add_edge(engine.START, "a").compile())


class Hidden(TypedDict, total=False):
    x: int
    secret: str


@case(RUN, **CALLED)
def what_is_untracked_is_seen_below(engine: Engine) -> Any:
    untracked = Annotated[Any, engine.channels.UntrackedValue]
    fields: Any = {**State.__annotations__, "secret": untracked}
    schema = TypedDict("Secret", fields, total=False)  # type: ignore[misc]
    child = engine.StateGraph(Hidden, output_schema=Logged).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"log": [s.get("secret")]})
    graph = engine.StateGraph(schema).add_node("p", lambda s: {"secret": "shown"})
    graph.add_node("sub", child.compile()).add_edge(engine.START, "p")
    return graph.add_edge("p", "sub")


@case(RUN, answer("yes"))
def what_is_untracked_is_gone_after_an_interrupt(engine: Engine) -> Any:
    untracked = Annotated[Any, engine.channels.UntrackedValue]
    fields: Any = {**State.__annotations__, "secret": untracked}
    schema = TypedDict("Secret", fields, total=False)  # type: ignore[misc]
    graph = engine.StateGraph(schema).add_node("p", lambda s: {"secret": "shown"})
    graph.add_node("a", lambda s: {"log": [s.get("secret"), engine.interrupt("?")]})
    return graph.add_edge(engine.START, "p").add_edge("p", "a")


@case(start(3), answer("A"), answer("B"))
def a_workflow_whose_tasks_call_tasks_that_ask(engine: Engine) -> Any:
    ask = asking(engine)
    inner = engine.task(lambda n: [ask(f"{n}?").result(), n], name="inner")
    outer = engine.task(lambda n: inner(n).result() + inner(n + 1).result(), name="outer")

    def flow(n: int) -> Any:
        return outer(n).result()

    return Flow(engine, flow)


@case(start(1), start(2), start(3), **CALLED)
def a_workflow_that_adds_up_its_runs(engine: Engine) -> Any:
    double = engine.task(lambda n: n * 2, name="double")

    def flow(n: int, *, previous: Any = None) -> Any:
        total = (previous or 0) + double(n).result()
        return engine.entrypoint.final(value=f"total {total}", save=total)

    return Flow(engine, flow)


@case(start({"x": 1}), answer("A"))
def a_workflow_below_a_graph_asks(engine: Engine) -> Any:
    @engine.entrypoint()
    def flow(state: Any) -> Any:
        return {"log": [engine.interrupt(f"x is {state['x']}?")]}

    return above(engine, flow)
