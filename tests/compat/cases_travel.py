"""State that is updated from outside, replayed and forked."""

from __future__ import annotations

from typing import Any

from .cases_asking import asks, one
from .cases_flow import State, chain, says
from .cases_subgraphs import Logged
from .driving import (
    Case,
    answer,
    answer_each,
    answer_some,
    at,
    cases_of,
    command,
    go_on,
    start,
    update,
)
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)

RUN = start({"x": 1})


@case(RUN, update({"x": 5}), go_on())
def an_update_of_a_finished_thread(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"x": 5}), update({"x": 6}), go_on())
def two_updates_of_a_finished_thread(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"x": 5}, "a"), go_on())
def an_update_as_a_node_runs_what_follows_it(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"log": ["u"]}, "b"), go_on(), interrupt_before=["b"])
def an_update_at_a_breakpoint_skips_the_node(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, update({"log": ["u"]}), go_on(), interrupt_before=["b"])
def an_update_at_a_breakpoint_as_the_last_node(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, update({"x": 3}, "a"), go_on(), interrupt_before=["b"])
def an_update_runs_the_branches_of_its_node(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_conditional_edges("a", lambda s: "b" if s["x"] == 1 else "c", ["b", "c"])


@case(RUN, update({"x": 3}, "nowhere"))
def an_update_as_an_unknown_node(engine: Engine) -> Any:
    return chain(engine, "a")


@case(update({"x": 3}, "a"), go_on())
def an_update_of_an_empty_thread(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(update({"x": 3}), go_on())
def an_update_of_an_empty_thread_as_no_one(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"x": 3}))
def an_ambiguous_update(engine: Engine) -> Any:
    graph = chain(engine, "a")
    return graph.add_node("b", says("b")).add_edge(engine.START, "b")


@case(RUN, update(None, "__end__"), go_on(), interrupt_before=["b"])
def an_update_as_the_end_clears_what_is_next(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"x": 9}, "__start__"), go_on())
def an_update_as_the_start(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"x": 9}, "__input__"), go_on())
def an_update_as_the_input(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update(None, "__copy__"), go_on())
def a_copy_of_the_state(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"unknown": 9}, "a"), go_on())
def an_update_of_an_unknown_key(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update(None), go_on())
def an_update_of_nothing(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, update({"log": ["u"]}, "w"), go_on())
def an_update_as_a_node_that_is_sent_to(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda arg: {"log": [arg]}).add_node("z", says("z"))
    graph.add_edge("w", "z")
    return graph.add_conditional_edges("a", lambda s: [engine.Send("w", 1)], ["w"])


@case(RUN, update({"log": ["u"]}), go_on())
def an_update_after_sent_tasks_as_no_one(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda arg: {"log": [arg]})
    return graph.add_conditional_edges("a", lambda s: [engine.Send("w", len(s["log"]))], ["w"])


@case(RUN, update(None), go_on(), interrupt_before=["b"])
def an_update_of_nothing_runs_the_branches(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("b", says("b")).add_node("c", says("c"))
    return graph.add_conditional_edges("a", lambda s: ["b", "c"][len(s["log"]) % 2], ["b", "c"])


@case(RUN, command(update={"log": ["told"]}), start({"x": 2}))
def new_input_after_an_update_as_input(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, answer("yes"), at(1, update({"log": ["u"]}, "a")), go_on())
def a_fork_as_the_node_that_asked(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(RUN, at(2, update({"log": ["u"]}, "d")), command(update={"x": 3}), go_on())
def a_fork_as_a_deferred_node(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("d", says("d"), defer=True).add_node("e", says("e"))
    return graph.add_edge("a", "d").add_edge("d", "e")


@case(RUN, at(0, go_on()))
def a_replay_of_the_last_checkpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(1, go_on()), at(2, go_on()))
def a_replay_of_an_older_checkpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(3, go_on()))
def a_replay_of_the_first_checkpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(4, go_on()))
def a_replay_from_the_input(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(2, update({"x": 7}, "a")), go_on())
def a_fork_of_an_older_checkpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(2, update({"log": ["forked"]})), go_on(), start({"x": 2}))
def a_fork_and_a_new_run(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(2, start({"x": 7})))
def new_input_at_an_older_checkpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, answer("yes"), at(2, go_on()), answer("no"))
def a_replayed_interrupt_is_asked_again(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(RUN, answer("yes"), at(2, go_on()))
def a_replay_before_an_interrupt_asks_it(engine: Engine) -> Any:
    return chain(engine, "p").add_node("a", asks(engine, "q")).add_edge("p", "a")


@case(RUN, at(0, answer("yes")))
def an_answer_at_the_last_checkpoint(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(RUN, answer("A"), answer("B"), at(1, go_on()), answer("C"), answer("D"))
def a_replay_of_two_interrupts(engine: Engine) -> Any:
    return one(engine, asks(engine, "one", "two"))


@case(RUN, answer("yes"), at(1, update({"x": 5})), go_on(), answer("other"))
def a_fork_at_an_interrupt(engine: Engine) -> Any:
    return chain(engine, "p").add_node("a", asks(engine, "q")).add_edge("p", "a")


@case(RUN, answer("yes"), at(2, go_on()), answer("no"))
def a_replay_of_a_child_that_asked(engine: Engine) -> Any:
    child = one(engine, asks(engine, "child?"), "cb")
    graph = chain(engine, "p").add_node("sub", child.compile()).add_edge("p", "sub")
    return graph.add_node("q", says("q")).add_edge("sub", "q")


@case(RUN, at(1, go_on()))
def a_replay_of_a_child(engine: Engine) -> Any:
    graph = chain(engine, "p").add_node("sub", chain(engine, "ca", "cb").compile())
    return graph.add_edge("p", "sub")


@case(RUN, answer("deep"), at(1, go_on()), answer("other"))
def a_replay_of_a_grandchild_that_asked(engine: Engine) -> Any:
    lowest = one(engine, asks(engine, "low?"), "after").compile()
    middle = chain(engine, "m").add_node("low", lowest).add_edge("m", "low").compile()
    return chain(engine, "t").add_node("mid", middle).add_edge("t", "mid")


@case(
    start({}),
    answer_each(lambda v: "1"),
    at(1, go_on()),
    answer_some("s1?"),
    answer_some("s2?"),
)
def a_replay_of_parallel_children_that_asked(engine: Engine) -> Any:
    graph = chain(engine, "p", state=Logged)
    for name in ("s1", "s2"):
        child = one(engine, asks(engine, f"{name}?"), "after", state=Logged)
        graph.add_node(name, child.compile()).add_edge("p", name)
    return graph


@case(RUN, RUN, at(1, go_on()))
def a_replay_of_a_child_with_its_own_history(engine: Engine) -> Any:
    child = engine.StateGraph(State).add_edge(engine.START, "c")
    child.add_node("c", lambda s: {"log": [len(s.get("log", []))]})
    inner = child.compile(checkpointer=True)
    return one(engine, lambda s: {"log": [inner.invoke({"x": 0})["log"]]})


@case(RUN, answer_some("qa"), at(0, go_on()), answer_each(lambda v: "again"))
def a_replay_with_one_of_two_interrupts_answered(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    for name in "ab":
        graph.add_node(name, asks(engine, f"q{name}")).add_edge(engine.START, name)
    return graph


@case(RUN, command(update={"x": 8}), update({"x": 9}, "a"), go_on())
def updates_of_both_kinds(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, go_on(), at(1, go_on()), go_on(), interrupt_before=["b"])
def a_replay_stops_at_breakpoints(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c")


@case(RUN, at(1, update([({"log": ["u"]}, "a"), ({"log": ["v"]}, "b")], "__copy__")), go_on())
def a_copy_with_updates_beside_an_older_checkpoint(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_node("a", says("a")).add_node("b", says("b"))
    return graph.add_edge(engine.START, "a").add_edge(engine.START, "b")
