"""Subgraphs: their interrupts reach the caller, and responses reach the subgraph."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.engine.savers.memory import InMemorySaver

from .graphs import (
    CONFIG,
    State,
    answer,
    asks,
    line,
    log_of,
    open_interrupts,
    paused,
    saved,
    says,
    side_by_side,
)


def calling(child: Any) -> Any:
    return lambda state: {"log": child.invoke({"log": []})["log"]}


def counting(counts: dict[str, int], name: str, ask: bool = False) -> Any:
    """Return a node that counts how often it was started."""

    def node(state: State) -> dict[str, Any]:
        counts[name] = counts.get(name, 0) + 1
        return {"log": [interrupt(f"{name}?") if ask else name]}

    return node


def test_compiled_graph_used_as_node_runs_its_nodes_in_parent_run() -> None:
    child = line(ca=says("ca"), cb=says("cb")).compile()
    assert saved(line(p=says("p"), sub=child)).invoke({"x": 1}, CONFIG)["log"] == [
        *("p", "p", "ca", "cb")
    ]


def test_interrupt_in_subgraph_pauses_parent_before_its_next_node() -> None:
    graph = paused(line(p=says("p"), sub=calling(line(c=asks("child?")).compile()), q=says("q")))
    assert graph.get_state(CONFIG).next == ("sub",)
    assert list(open_interrupts(graph)) == ["child?"]
    answer(graph, "yes")
    assert log_of(graph) == ["p", "yes", "q"]


def test_resume_runs_parent_node_again_but_not_finished_nodes_of_its_subgraph() -> None:
    counts: dict[str, int] = {}
    child = line(before=counting(counts, "before"), ask=counting(counts, "ask", ask=True)).compile()

    def parent(state: State) -> dict[str, Any]:
        counts["parent"] = counts.get("parent", 0) + 1
        return {"log": child.invoke({"log": []})["log"]}

    graph = paused(line(parent=parent))
    answer(graph, "yes")
    assert counts == {"parent": 2, "before": 1, "ask": 2}
    assert log_of(graph) == ["before", "yes"]


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_interrupt_in_subgraph_nested_up_to_four_levels_receives_its_response(levels: int) -> None:
    graph = line(c=asks("deep?"), after=says("after"))
    for level in range(levels):
        graph = line(**{f"p{level}": says(f"p{level}"), "sub": calling(graph.compile())})
    compiled = paused(graph)
    [asked] = compiled.get_state(CONFIG).interrupts
    assert asked.value == "deep?"
    answer(compiled, {asked.id: "yes"})
    assert log_of(compiled)[-2:] == ["yes", "after"]
    assert len(log_of(compiled)) == levels + 2


def test_interrupts_of_parallel_subgraphs_can_be_answered_in_any_order() -> None:
    children = {name: calling(line(c=asks(f"{name}?"), d=says(name)).compile()) for name in "abc"}
    graph = paused(side_by_side(**children))
    for name in "cab":
        answer(graph, {open_interrupts(graph)[f"{name}?"]: f"{name}!"})
    assert log_of(graph) == ["a!", "a", "b!", "b", "c!", "c"]


def test_parallel_interrupts_in_one_subgraph_are_all_pending() -> None:
    graph = paused(line(sub=calling(side_by_side(a=asks("qa"), b=asks("qb")).compile())))
    ids = open_interrupts(graph)
    assert set(ids) == {"qa", "qb"}
    answer(graph, {ids["qb"]: "B"})
    assert set(open_interrupts(graph)) == {"qa"}
    answer(graph, "A")
    assert log_of(graph) == ["A", "B"]


def test_node_interrupts_before_inside_and_after_its_subgraph_in_order() -> None:
    child = line(c=asks("child?")).compile()

    def node(state: State) -> dict[str, Any]:
        first = interrupt("first?")
        given = child.invoke({"log": []})["log"]
        return {"log": [first, *given, interrupt("last?")]}

    graph = paused(line(a=node))
    for pending in ("first?", "child?", "last?"):
        assert list(open_interrupts(graph)) == [pending]
        answer(graph, pending.upper())
    assert log_of(graph) == ["FIRST?", "CHILD?", "LAST?"]


def test_node_calling_two_subgraphs_with_interrupts_receives_both_responses() -> None:
    one, two = line(c=asks("one?")).compile(), line(c=asks("two?")).compile()

    def node(state: State) -> dict[str, Any]:
        return {"log": one.invoke({"log": []})["log"] + two.invoke({"log": []})["log"]}

    graph = paused(line(a=node))
    answer(graph, "1")
    answer(graph, "2")
    assert log_of(graph) == ["1", "2"]


def test_interrupts_of_async_subgraphs_receive_their_responses() -> None:
    child = line(c=asks("child?")).compile()

    async def node(state: State) -> dict[str, Any]:
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    graph = saved(side_by_side(a=node, b=node))
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    ids = {asked.id: "yes" for asked in graph.get_state(CONFIG).interrupts}
    assert len(ids) == 2
    asyncio.run(graph.ainvoke(Command(resume=ids), CONFIG))
    assert log_of(graph) == ["yes", "yes"]


def test_subgraph_starts_with_empty_state_in_each_run_of_its_parent() -> None:
    child = line(c=lambda state: {"log": [len(state["log"])]}).compile()
    graph = saved(line(a=calling(child)))
    graph.invoke({"x": 1}, CONFIG)
    graph.invoke({"x": 2}, CONFIG)
    assert log_of(graph) == [0, 0]


def test_subgraph_compiled_with_checkpointer_true_continues_its_state_in_next_run() -> None:
    child = line(c=lambda state: {"log": [len(state["log"])]}).compile(checkpointer=True)
    graph = saved(line(a=calling(child)))
    graph.invoke({"x": 1}, CONFIG)
    graph.invoke({"x": 2}, CONFIG)
    assert log_of(graph) == [0, 0, 1]


def test_subgraph_compiled_with_checkpointer_false_runs_again_on_resume_of_parent() -> None:
    counts: dict[str, int] = {}
    child = line(before=counting(counts, "before")).compile(checkpointer=False)

    def node(state: State) -> dict[str, Any]:
        given = child.invoke({"log": []})["log"]
        return {"log": [*given, interrupt("q")]}

    answer(paused(line(a=node)), "yes")
    assert counts == {"before": 2}


def test_subgraph_compiled_with_a_checkpointer_stores_its_state_in_checkpointer_of_its_parent() -> (
    None
):
    own = InMemorySaver()
    child = line(c=asks("child?")).compile(own)
    graph = paused(line(a=calling(child)))
    answer(graph, "yes")
    assert log_of(graph) == ["yes"]
    assert list(own.list(None)) == []


def test_subgraph_invoked_with_another_thread_id_stores_its_state_in_checkpointer_of_subgraph() -> (
    None
):
    own = InMemorySaver()
    child = line(c=says("c")).compile(own)

    def node(state: State) -> dict[str, Any]:
        place = {"configurable": {"thread_id": "other"}}
        return {"log": child.invoke({"log": []}, place)["log"]}

    saved(line(a=node)).invoke({"x": 1}, CONFIG)
    assert len(list(own.list({"configurable": {"thread_id": "other"}}))) == 3


def test_command_parent_from_subgraph_updates_and_directs_its_parent_graph() -> None:
    child = StateGraph(State).add_edge(START, "c")
    child.add_node(
        "c", lambda s: Command(graph=Command.PARENT, goto="z", update={"log": ["from below"]})
    )
    graph = StateGraph(State).add_node("sub", child.compile()).add_node("z", says("z"))
    assert saved(graph.add_edge(START, "sub")).invoke({"x": 1}, CONFIG)["log"] == [
        "from below",
        "z",
    ]


def test_run_failed_in_subgraph_continues_at_failed_node_of_the_subgraph() -> None:
    counts: dict[str, int] = {}

    def flaky(state: State) -> dict[str, Any]:
        counts["flaky"] = counts.get("flaky", 0) + 1
        if counts["flaky"] == 1:
            raise OSError("down")
        return {"log": ["flaky"]}

    child = line(before=counting(counts, "before"), flaky=flaky).compile()
    graph = saved(line(p=says("p"), sub=calling(child)))
    with pytest.raises(OSError, match="down"):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(None, CONFIG)["log"] == ["p", "before", "flaky"]
    assert counts == {"before": 1, "flaky": 2}


def test_get_state_with_subgraphs_includes_state_of_interrupted_subgraph() -> None:
    child = line(ca=says("ca"), cb=asks("child?")).compile()
    graph = paused(line(p=says("p"), sub=child))
    [task] = graph.get_state(CONFIG, subgraphs=True).tasks
    assert task.state.values["log"] == ["p", "ca"]
    assert task.state.next == ("cb",)
    assert [asked.value for asked in task.state.interrupts] == ["child?"]


def test_recursion_limit_counts_steps_of_subgraph_separately_from_parent() -> None:
    child = line(c=says("c"), d=says("d")).compile()
    graph = saved(line(a=calling(child)))
    assert graph.invoke({"x": 1}, {**CONFIG, "recursion_limit": 3})["log"] == ["c", "d"]


def test_interrupt_of_subgraph_in_loop_is_pending_in_each_iteration() -> None:
    child = StateGraph(State).add_edge(START, "c")
    child.add_node("c", lambda s: {"x": s["x"] + 1, "log": [interrupt(f"round {s['x']}")]})
    graph = StateGraph(State).add_node("sub", child.compile()).add_edge(START, "sub")
    graph.add_conditional_edges("sub", lambda s: "sub" if s["x"] < 4 else "__end__")
    compiled = paused(graph)
    for number in (1, 2, 3):
        assert list(open_interrupts(compiled)) == [f"round {number}"]
        answer(compiled, number)
    assert compiled.get_state(CONFIG).next == ()


def test_subgraphs_started_by_three_sends_each_have_a_pending_interrupt() -> None:
    child = StateGraph(State).add_edge(START, "c")
    child.add_node("c", lambda s: {"log": [interrupt(f"child {s['x']}?")]})
    inner = child.compile()
    graph = line(p=says("p"))
    graph.add_node("sub", lambda arg: {"log": inner.invoke({"x": arg, "log": []})["log"]})
    from hitl_django.engine.types import Send

    graph.add_conditional_edges("p", lambda s: [Send("sub", i) for i in range(3)], ["sub"])
    compiled = paused(graph)
    ids = open_interrupts(compiled)
    assert set(ids) == {"child 0?", "child 1?", "child 2?"}
    answer(compiled, {name: pending for pending, name in ids.items()})
    assert log_of(compiled) == ["p", "child 0?", "child 1?", "child 2?"]


# The graph that a node calls.


class Agent:
    """Agent with its graph as an attribute."""

    def __init__(self) -> None:
        self.graph = line(pre=says("pre"), asking=asks("child?")).compile()

    def run(self, state: State) -> Any:
        return agent.graph.invoke({"x": 1})

    @property
    def broken(self) -> Any:
        raise OSError("down")


agent = Agent()
run_agent = agent.graph.invoke
#: The attribute name of the nodes below.
graph = line(other=says("other")).compile()


def call_attribute(state: State) -> Any:
    return agent.graph.invoke({"x": 1})


@functools.wraps(call_attribute)
def call_decorated(state: State) -> Any:
    return call_attribute(state)


def call_in_comprehension(state: State) -> Any:
    [result] = [agent.graph.invoke({"x": 1}) for _ in range(1)]
    return result


def call_bound_method(state: State) -> Any:
    return run_agent({"x": 1})


def call_after_broken_property(state: State) -> Any:
    if not state["x"]:
        return agent.broken.graph
    return agent.graph.invoke({"x": 1})


NODES = [
    call_attribute,
    call_decorated,
    call_in_comprehension,
    call_bound_method,
    call_after_broken_property,
    agent.run,
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
def test_get_subgraphs_lists_graph_that_a_node_reads_from_an_object_attribute(node: Any) -> None:
    compiled = paused(line(n=node))
    assert list(compiled.get_subgraphs(recurse=True)) == [("n", agent.graph)]
    state = compiled.get_state(CONFIG, subgraphs=True).tasks[0].state
    assert [asked.value for asked in state.interrupts] == ["child?"]
    compiled.update_state(
        {"configurable": {**state.config["configurable"], "discard_pending": True}},
        {"log": ["edited"]},
    )
    compiled.invoke(None, CONFIG)
    assert answer(compiled, "yes")["log"] == ["pre", "edited", "yes"]


def test_get_subgraphs_of_graph_whose_node_refers_to_the_graph_is_empty() -> None:
    compiled = saved(line(n=lambda state: {"log": [compiled.name]}))
    assert list(compiled.get_subgraphs(recurse=True)) == []


def test_get_subgraphs_lists_mutually_recursive_graphs_once() -> None:
    one = line(to=lambda state: other.invoke(state)).compile()
    other = line(back=lambda state: one.invoke(state)).compile()
    listed = [("to", other), ("to|back", one)]
    assert list(one.get_subgraphs(recurse=True)) == listed
