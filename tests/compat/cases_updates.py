"""update_state and bulk_update_state in all forms, and replays of each checkpoint."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from .cases_asking import asks, one
from .cases_flow import State, chain, says
from .driving import Case, answer, at, bulk, cases_of, go_on, start, update
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
RUN = start({"x": 1, "log": ["in"]})
TOLD = {"log": ["told"]}


def line(engine: Engine) -> Any:
    """Return a chain of three nodes."""
    return chain(engine, "a", "b", "c")


def forked(engine: Engine) -> Any:
    """Return a graph with a node, two concurrent nodes, and a node that joins them."""
    graph = chain(engine, "a").add_node("b", says("b")).add_node("c", says("c"))
    graph.add_node("z", says("z")).add_edge("a", "b").add_edge("a", "c")
    return graph.add_edge(["b", "c"], "z")


BULKS: dict[str, tuple[Any, ...]] = {
    "one_update": ([(TOLD, "a")],),
    "two_supersteps": ([(TOLD, "a")], [({"x": 7}, "b")]),
    "two_nodes_in_a_superstep": ([(TOLD, "a"), ({"log": ["b"]}, "b")],),
    "one_node_twice_in_a_superstep": ([(TOLD, "a"), ({"log": ["again"]}, "a")],),
    "the_input_and_a_node": ([({"x": 5}, "__input__")], [(TOLD, "a")]),
    "a_copy": ([(None, "__copy__")],),
    "a_copy_in_the_middle": ([(TOLD, "a")], [(None, "__copy__")], [(TOLD, "b")]),
    "the_end": ([(None, "__end__")],),
    "a_node_and_the_end": ([(TOLD, "a")], [(None, "__end__")]),
    "no_one": ([(TOLD,)],),
    "no_one_among_two": ([(TOLD,), (TOLD, "a")],),
    "no_supersteps": (),
    "an_empty_superstep": ([],),
    "an_unknown_node": ([(TOLD, "nobody")],),
    "nothing_by_a_node": ([(None, "a")],),
    "two_values_of_one_key": ([({"x": 2}, "a"), ({"x": 3}, "b")],),
    "a_whole_history": ([({"x": 1}, "__input__")], [(TOLD, "a")], [(TOLD, "b")], [(TOLD, "c")]),
}


def _bulk(name: str, supersteps: Any, build: Any, *first: Any) -> None:
    def updated(engine: Engine) -> Any:
        return build(engine)

    updated.__name__ = name
    case(*first, bulk(*supersteps), go_on())(updated)


for _name, _supersteps in BULKS.items():
    _bulk(f"in_bulk_{_name}_on_a_finished_thread", _supersteps, line, RUN)
    if _name not in ("no_one", "nothing_by_a_node", "a_copy", "the_end", "no_one_among_two"):
        _bulk(f"in_bulk_{_name}_on_no_thread", _supersteps, forked)


def _each_place() -> None:
    for place in range(5):

        def replayed(engine: Engine) -> Any:
            return forked(engine)

        replayed.__name__ = f"a_replay_of_a_fan_out_at_{place}"
        case(RUN, start({"x": 2}), at(place, go_on()))(replayed)

        def copied(engine: Engine) -> Any:
            return forked(engine)

        copied.__name__ = f"a_copy_of_a_fan_out_at_{place}"
        case(RUN, at(place, update(None, "__copy__")), go_on())(copied)
    for place in range(4):

        def asked(engine: Engine) -> Any:
            return chain(engine, "p").add_node("a", asks(engine, "q")).add_edge("p", "a")

        asked.__name__ = f"a_replay_around_a_question_at_{place}"
        case(RUN, answer("A"), at(place, go_on()))(asked)

        def below(engine: Engine) -> Any:
            child = chain(engine, "ca", "cb").compile()
            graph = chain(engine, "p").add_node("sub", child).add_node("z", says("z"))
            return graph.add_edge("p", "sub").add_edge("sub", "z")

        below.__name__ = f"a_replay_around_a_subgraph_at_{place}"
        case(RUN, at(place, go_on()))(below)


_each_place()


@case(RUN, update({"log": {"__overwrite__": ["only"]}}, "a"), go_on())
def an_overwrite_by_hand(engine: Engine) -> Any:
    return line(engine)


@case(RUN, update(TOLD, "w"), go_on())
def an_update_as_a_node_that_jumps(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda s: engine.Command(goto="z"))
    return graph.add_node("z", says("z")).add_edge("a", "w")


@case(RUN, update(TOLD, "sub"), go_on())
def an_update_as_a_subgraph(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("sub", chain(engine, "ca").compile())
    return graph.add_node("z", says("z")).add_edge("a", "sub").add_edge("sub", "z")


@case(RUN, update(5, "a"), update("text", "a"), update(["x"], "a"))
def an_update_that_is_none(engine: Engine) -> Any:
    return line(engine)


@case(update({"x": 1}, "__input__"), go_on(), update({"x": 2}, "__input__"), go_on())
def a_thread_begun_by_hand(engine: Engine) -> Any:
    return line(engine)


class Summed(TypedDict, total=False):
    total: Annotated[int, operator.add]
    last: str


@case(start({"total": 1}), update({"total": 5}, "a"), update({"total": 5}, "b"), go_on())
def updates_go_through_reducers(engine: Engine) -> Any:
    graph = engine.StateGraph(Summed).add_node("a", lambda s: {"total": 10})
    graph.add_node("b", lambda s: {"last": f"b at {s['total']}"})
    return graph.add_edge(engine.START, "a").add_edge("a", "b")


@case(RUN, update({"log": ["by b"]}, "b"), go_on())
def an_update_as_one_of_two_that_join(engine: Engine) -> Any:
    return forked(engine)


@case(RUN, go_on(), update(TOLD, "b"), go_on(), interrupt_before=["b", "c"])
def an_update_as_one_of_two_at_a_breakpoint(engine: Engine) -> Any:
    return forked(engine)


@case(RUN, answer("A"), at(1, update(TOLD, "p")), go_on(), answer("B"))
def a_interrupt_is_asked_again_on_a_fork(engine: Engine) -> Any:
    return chain(engine, "p").add_node("a", asks(engine, "q")).add_edge("p", "a")


@case(RUN, at(1, update({"x": 3}, "a")), at(0, update({"x": 4}, "b")), go_on())
def a_fork_of_a_fork(engine: Engine) -> Any:
    return line(engine)


@case(RUN, update({"unknown": 1, "x": 6}, "a"), go_on())
def an_update_of_known_and_unknown_keys(engine: Engine) -> Any:
    return line(engine)


@case(RUN, update(TOLD), go_on(), update(TOLD), go_on(), interrupt_after=["a", "b"])
def an_update_as_no_one_at_each_breakpoint(engine: Engine) -> Any:
    return line(engine)


@case(start({"x": 1}), update({"log": ["u"]}, "a"), go_on())
def an_update_of_a_one_node_graph(engine: Engine) -> Any:
    return one(engine, says("a"), state=State)
