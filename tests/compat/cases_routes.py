"""Routes: branches, jumps and Sends in all forms, and deferred nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

from .cases_asking import asks, one
from .cases_flow import State, chain, says
from .driving import Case, answer, answer_each, answer_some, cases_of, command, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
#: LangGraph's metadata doesn't contain the nodes that a caller's jump starts.
JUMPED: Any = {"leaves_out": ("record",), "differs": "a jump is on record"}
RUN = start({"x": 1, "log": ["in"]})


def jumping(engine: Engine, jump: Any) -> Any:
    """Return a graph whose first node returns the result of ``jump``.

    The nodes b, c and w may follow.
    """
    graph = engine.StateGraph(State).add_node("a", lambda state: jump(engine))
    graph.add_node("b", says("b")).add_node("c", says("c"))
    graph.add_node("w", lambda sent: {"log": [f"w {sent}"]})
    return graph.add_edge(engine.START, "a")


JUMPS: dict[str, Any] = {
    "to_a_tuple": lambda e: e.Command(goto=("b", "c")),
    "to_an_empty_list": lambda e: e.Command(goto=[]),
    "to_one_name_twice": lambda e: e.Command(goto=["b", "b"]),
    "to_a_name_and_the_end": lambda e: e.Command(goto=["b", e.END]),
    "to_the_end_with_an_update": lambda e: e.Command(goto=e.END, update={"x": 9}),
    "to_packets_in_a_tuple": lambda e: e.Command(goto=(e.Send("w", 1), e.Send("w", 2))),
    "with_no_update": lambda e: e.Command(update=None, goto="b"),
    "with_an_empty_update": lambda e: e.Command(update={}, goto="b"),
    "with_one_pair": lambda e: e.Command(update=[("x", 5)], goto="c"),
    "with_a_tuple_of_pairs": lambda e: e.Command(update=(("log", ["1"]), ("log", ["2"]))),
    "of_nothing_at_all": lambda e: e.Command(),
    "in_a_tuple_of_commands": lambda e: (e.Command(goto="b"), e.Command(goto="c")),
    "in_a_list_with_none": lambda e: [None, e.Command(goto="b")],
    "twice_with_updates": lambda e: [
        e.Command(update={"log": ["1"]}, goto="b"), e.Command(update={"log": ["2"]}, goto="b")],
    "with_a_packet_and_a_dict": lambda e: [{"log": ["d"]}, e.Command(goto=e.Send("w", 3))],
    "with_an_overwrite": lambda e: e.Command(update={"log": e.Overwrite(["new"])}, goto="b"),
    "with_two_overwrites": lambda e: [
        e.Command(update={"log": e.Overwrite(["1"])}), e.Command(update={"log": ["2"]})],
    "to_itself_and_another_by_packets": lambda e: e.Command(
        goto=[e.Send("b", {"x": 2}), e.Send("c", {"x": 3}), "b"]),
}  # fmt: skip


def _jump(name: str, jump: Any) -> None:
    def jumped(engine: Engine) -> Any:
        return jumping(engine, jump)

    jumped.__name__ = f"a_jump_{name}"
    case(RUN)(jumped)


for _name, _made in JUMPS.items():
    _jump(_name, _made)

#: Return values of a branch of node a, each with the possible targets.
BRANCHES: dict[str, tuple[Any, Any]] = {
    "to_a_tuple": (lambda e, s: ("b", "c"), ["b", "c"]),
    "to_an_empty_list": (lambda e, s: [], ["b", "c"]),
    "to_one_name_twice": (lambda e, s: ["b", "b"], ["b"]),
    "to_a_name_and_a_packet": (lambda e, s: ["b", e.Send("w", s["x"])], ["b", "w"]),
    "to_the_end_and_a_name": (lambda e, s: [e.END, "c"], ["c", "__end__"]),
    "by_keys_of_a_map": (lambda e, s: ["left", "right"], {"left": "b", "right": "c"}),
    "by_numbers": (lambda e, s: s["x"], {1: "b", 2: "c"}),
    "by_none_in_a_map": (lambda e, s: None, {None: "c"}),
    "by_two_keys_of_one_node": (lambda e, s: ["p", "q"], {"p": "b", "q": "b"}),
    "to_the_end_by_a_map": (lambda e, s: "stop", {"stop": "__end__", "on": "b"}),
    "to_a_packet_beside_a_map": (lambda e, s: [e.Send("w", 1), "on"], {"on": "b"}),
    "without_a_list_of_targets": (lambda e, s: ["c", e.Send("w", 1)], None),
}


def _branch(name: str, choose: Any, targets: Any) -> None:
    def branched(engine: Engine) -> Any:
        graph = jumping(engine, lambda e: {"log": ["a"]})
        # LangGraph inspects the signature of the branch function.
        if targets is None:
            return graph.add_conditional_edges("a", lambda state: choose(engine, state))
        return graph.add_conditional_edges("a", lambda state: choose(engine, state), targets)

    branched.__name__ = f"a_branch_{name}"
    case(RUN)(branched)


for _name, (_choose, _targets) in BRANCHES.items():
    _branch(_name, _choose, _targets)


@case(RUN, start({"x": 2}))
def a_branch_that_is_given_the_config(engine: Engine) -> Any:
    def choose(state, config):  # type: ignore[no-untyped-def]
        return config["configurable"]["thread_id"] == "thread"

    return jumping(engine, lambda e: None).add_conditional_edges("a", choose, {True: "b"})


@case(RUN, ways=("ainvoke", "astream"))
def an_async_branch_to_packets(engine: Engine) -> Any:
    async def choose(state: Any) -> Any:
        return [engine.Send("w", n) for n in range(2)]

    return jumping(engine, lambda e: None).add_conditional_edges("a", choose, ["w"])


@case(RUN)
def packets_with_the_whole_state(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda state: {"log": [len(state["log"])]})
    return graph.add_conditional_edges(
        "a", lambda state: [engine.Send("w", state), engine.Send("w", {**state, "log": []})], ["w"]
    )


@case(RUN)
def packets_that_lead_to_a_join(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda n: {"log": [n]}).add_node("b", says("b"))
    graph.add_node("z", says("z")).add_edge("a", "b").add_edge(["w", "b"], "z")
    return graph.add_conditional_edges("a", lambda s: [engine.Send("w", n) for n in (1, 2)], ["w"])


@case(RUN, answer_some(1), answer_each(lambda n: n * 10))
def packets_that_ask_before_a_deferred_node(engine: Engine) -> Any:
    graph = chain(engine, "a").add_node("w", lambda n: {"log": [engine.interrupt(n)]})
    graph.add_node("d", says("d"), defer=True).add_edge("w", "d").add_edge("a", "d")
    return graph.add_conditional_edges("a", lambda s: [engine.Send("w", n) for n in (1, 2)], ["w"])


@case(RUN, go_on(), interrupt_before=["d"])
def a_breakpoint_before_a_deferred_node(engine: Engine) -> Any:
    graph = chain(engine, "a", "b", "c").add_node("d", says("d"), defer=True)
    return graph.add_edge("a", "d").add_edge("c", "d")


@case(RUN, answer("yes"))
def a_deferred_node_that_asks(engine: Engine) -> Any:
    graph = chain(engine, "a", "b").add_node("d", asks(engine, "d?"), defer=True)
    return graph.add_edge("a", "d").add_edge("d", engine.END)


@case(RUN)
def a_deferred_node_that_jumps_back(engine: Engine) -> Any:
    def back(state: Any) -> Any:
        done = len(state["log"]) > 6
        return engine.Command(update={"log": ["d"]}, goto=engine.END if done else "b")

    graph = chain(engine, "a", "b", "c").add_node("d", back, defer=True)
    return graph.add_edge("a", "d").add_edge("c", "d")


@case(RUN)
def a_deferred_node_at_the_entry(engine: Engine) -> Any:
    graph = chain(engine, "a", "b").add_node("d", says("d"), defer=True)
    return graph.add_edge(engine.START, "d")


@case(RUN)
def a_deferred_graph(engine: Engine) -> Any:
    child = chain(engine, "ca").compile()
    graph = chain(engine, "a", "b", "c").add_node("d", child, defer=True)
    return graph.add_edge("a", "d")


@case(RUN)
def a_packet_to_a_deferred_node(engine: Engine) -> Any:
    graph = chain(engine, "a", "b", "c").add_node("d", says("d"), defer=True)
    return graph.add_conditional_edges("a", lambda s: [engine.Send("d", s)], ["d"])


@case(RUN, command(goto=lambda e: ("b", "c")), command(goto="b", update={"x": 4}), **JUMPED)
def a_jump_to_a_tuple_as_input(engine: Engine) -> Any:
    return chain(engine, "a").add_node("b", says("b")).add_node("c", says("c"))


@case(RUN, command(update=[("log", ["told"]), ("x", 3)]), go_on(), interrupt_before=["b"])
def an_update_as_pairs_as_input(engine: Engine) -> Any:
    return chain(engine, "a", "b")


@case(RUN, command(resume="yes", goto="c"), **JUMPED)
def an_answer_with_a_jump_elsewhere(engine: Engine) -> Any:
    return one(engine, asks(engine, "q")).add_node("c", says("c"))


@case(RUN, go_on(), go_on(), interrupt_after=["a", "c"])
def nothing_is_input_at_each_stop(engine: Engine) -> Any:
    return chain(engine, "a", "b", "c", "d")


@case(start({"x": 1}), start({}), go_on(), interrupt_before=["a"])
def an_empty_input_at_a_breakpoint(engine: Engine) -> Any:
    return chain(engine, "a", "b")


class Greeting:
    """A callable object that is called with the state."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, state: Any) -> Any:
        return {"log": [self.word]}


def greet(word: str, state: Any) -> Any:
    """Log a word."""
    return {"log": [word]}


def choose(target: str, state: Any) -> str:
    """Return the given target."""
    return target


@case(RUN)
def partials_and_objects_as_named_nodes(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_node("a", partial(greet, "partial"))
    graph.add_node("b", Greeting("object")).add_node("c", Greeting("method").__call__)
    graph.add_edge(engine.START, "a").add_edge("a", "b")
    return graph.add_conditional_edges("b", partial(choose, "c"), ["c"])


@case(RUN)
def a_method_names_its_node(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_node(Greeting("method").__call__).add_node(greet_all)
    return graph.add_edge(engine.START, "__call__").add_edge("__call__", "greet_all")


def greet_all(state: Any) -> Any:
    """Log the number of log entries."""
    return {"log": [len(state["log"])]}
