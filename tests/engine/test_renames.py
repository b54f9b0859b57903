"""Threads stored before nodes or state keys were renamed."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.engine.channels import LastValue
from hitl_django.engine.errors import GraphDefinitionError
from hitl_django.engine.graph.fingerprint import describe_structure, list_changes
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.node_api import once
from hitl_django.engine.types import Send

from .crashing import Crash

CONFIG: Any = {"configurable": {"thread_id": "thread"}}
RENAMED = {
    "review": "ask", "plan": "draft", "pay": "settle", "log": "notes", "total": "amount",
    "left": "west", "right": "east", "inner": "lower",
}  # fmt: skip

Build = Callable[[Callable[[str], str], Any], StateGraph]


def old(name: str) -> str:
    return name


def new(name: str) -> str:
    return RENAMED.get(name, name)


def state_of(name: Callable[[str], str]) -> Any:
    fields = {
        name("log"): Annotated[list, operator.add],
        name("total"): Annotated[int, operator.add],
    }
    return TypedDict("Notes", fields, total=False)  # type: ignore[operator]


def says(name: Callable[[str], str], word: str) -> Any:
    return lambda state: {name("log"): [word], name("total"): 1}


def asks(name: Callable[[str], str], word: str) -> Any:
    return lambda state: {name("log"): [interrupt(word), state.get(name("total"))]}


def graph_of(name: Callable[[str], str]) -> StateGraph:
    return StateGraph(state_of(name))


def in_a_row(name: Callable[[str], str], before: Any) -> StateGraph:
    graph = graph_of(name)
    graph.add_node(name("plan"), says(name, "plan"))
    graph.add_node(name("review"), asks(name, "Well?"))
    graph.add_node(name("pay"), says(name, "pay"))
    graph.add_edge(START, name("plan")).add_edge(name("plan"), name("review"))
    return graph.add_edge(name("review"), name("pay"))


def side_by_side(name: Callable[[str], str], before: Any) -> StateGraph:
    """One branch ends, the others ask; a join waits for all of them."""
    graph = graph_of(name)
    graph.add_node(name("left"), says(name, "left")).add_edge(START, name("left"))
    graph.add_node(name("right"), asks(name, "right?")).add_edge(START, name("right"))
    graph.add_node(name("review"), asks(name, "review?")).add_edge(START, name("review"))
    graph.add_node(name("pay"), says(name, "pay"))
    return graph.add_edge([name("left"), name("right"), name("review")], name("pay"))


def half_joined(name: Callable[[str], str], before: Any) -> StateGraph:
    """A join that one node has reached while another, a step later, asks."""
    graph = graph_of(name)
    graph.add_node(name("left"), says(name, "left")).add_edge(START, name("left"))
    graph.add_node(name("plan"), says(name, "plan")).add_edge(START, name("plan"))
    graph.add_node(name("review"), asks(name, "review?")).add_edge(name("plan"), name("review"))
    graph.add_node(name("pay"), says(name, "pay"))
    return graph.add_edge([name("left"), name("review")], name("pay"))


def sent(name: Callable[[str], str], before: Any) -> StateGraph:
    def fan(state: Any) -> Any:
        return [Send(name("review"), {name("total"): number}) for number in range(3)]

    def each(state: Any) -> Any:
        number = state[name("total")]
        return {name("log"): [interrupt(f"{number}?") if number else "none", number]}

    graph = graph_of(name)
    graph.add_node(name("plan"), says(name, "plan")).add_edge(START, name("plan"))
    graph.add_node(name("review"), each)
    return graph.add_conditional_edges(name("plan"), fan, [name("review")])


def sub(name: Callable[[str], str], before: Any) -> StateGraph:
    renamed = None if name is old else {"review": "ask", "log": "notes", "total": "amount",
                                        "plan": "draft", "pay": "settle"}  # fmt: skip
    below = in_a_row(name, before).compile(renamed=renamed)
    graph = graph_of(name)
    graph.add_node(name("inner"), below).add_edge(START, name("inner"))
    graph.add_node(name("left"), asks(name, "left?"))
    return graph.add_edge(name("inner"), name("left"))


def with_memory(name: Callable[[str], str], before: Any) -> StateGraph:
    """A graph below that keeps its history, called twice."""
    state = state_of(name)

    def count(state: Any) -> Any:
        return {name("total"): 10}

    below = StateGraph(state, output_schema=state).add_node("count", count)
    below.add_edge(START, "count").add_node(name("review"), asks(name, "below?"))
    below.add_edge("count", name("review"))
    renamed = None if name is old else {"review": "ask", "log": "notes", "total": "amount"}
    compiled = below.compile(checkpointer=True, renamed=renamed)

    def call(state: Any) -> Any:
        found = compiled.invoke({name("log"): []})
        return {name("total"): found[name("total")]}

    def again(state: Any) -> str:
        return name("inner") if state[name("total")] < 30 else "__end__"

    graph = StateGraph(state).add_node(name("inner"), call).add_edge(START, name("inner"))
    return graph.add_conditional_edges(name("inner"), again, [name("inner"), "__end__"])


def handled(name: Callable[[str], str], before: Any) -> StateGraph:
    def fails(state: Any) -> Any:
        raise ValueError("no")

    graph = graph_of(name)
    graph.add_node(name("review"), fails, error_handler=asks(name, "Failed?"))
    return graph.add_edge(START, name("review"))


KINDS: list[Build] = [
    in_a_row, side_by_side, half_joined, sent, sub, with_memory, handled,
]  # fmt: skip


class Calls:
    """The two ways to run a graph, and where it stores."""

    def __init__(self, is_async: bool) -> None:
        self.is_async, self.saver = is_async, InMemorySaver()

    def compiled(self, build: Build, name: Callable[[str], str], **options: Any) -> Any:
        graph = build(name, None).compile(self.saver, **options)
        if name is old:
            return graph
        fitting = {
            was: now for was, now in RENAMED.items() if {now} & {*graph.nodes, *graph.channels}
        }
        return graph.with_renames(fitting)

    def load(self, ns: str) -> Any:
        place: Any = {"configurable": {"thread_id": "thread", "checkpoint_ns": ns}}
        return self.saver.get_tuple(place)

    def invoke(self, graph: Any, given: Any) -> Any:
        if self.is_async:
            return asyncio.run(graph.ainvoke(given, CONFIG))
        return graph.invoke(given, CONFIG)


def interrupts_of(graph: Any) -> dict[str, str]:
    return {
        str(asked.value): asked.id for asked in graph.get_state(CONFIG, subgraphs=True).interrupts
    }


def run_to_the_end(calls: Calls, graphs: list[Any], answered_first: int) -> Any:
    """Answer all interrupts, each time with the next graph."""
    calls.invoke(graphs[0], {"log" if "log" in graphs[0].channels else "notes": []})
    step = 0
    while asked := interrupts_of(graphs[min(step, len(graphs) - 1)]):
        graph = graphs[min(step, len(graphs) - 1)]
        chosen = list(asked.items())[:answered_first]
        calls.invoke(graph, Command(resume={key: f"yes to {word}" for word, key in chosen}))
        step += 1
        assert step < 20
    state = graphs[-1].get_state(CONFIG).values
    return sorted(map(str, state.get("notes", state.get("log")))), state.get(
        "amount", state.get("total")
    )


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("answered", [1, 10], ids=["one by one", "all at once"])
@pytest.mark.parametrize("build", KINDS)
def test_paused_thread_of_renamed_graph_ends_with_same_result_as_unrenamed_graph(
    build: Build, answered: int, is_async: bool
) -> None:
    plain = Calls(is_async)
    expected = run_to_the_end(plain, [plain.compiled(build, old)], answered)
    for rename_after in range(4):
        calls = Calls(is_async)
        graphs = [calls.compiled(build, old)] * rename_after
        first = calls.compiled(build, old)
        calls.invoke(first, {"log": []})
        before = interrupts_of(first)
        renamed = calls.compiled(build, new)
        # The interrupts are the same, although their nodes have other names.
        assert interrupts_of(renamed) == before
        changes = list_changes(describe_structure(first), renamed, calls.load)
        assert changes == []
        fresh = Calls(is_async)
        graphs = [fresh.compiled(build, old)] * (rename_after + 1) + [fresh.compiled(build, new)]
        assert run_to_the_end(fresh, graphs, answered) == expected


def test_renaming_nodes_without_declaration_changes_interrupt_ids_of_paused_thread() -> None:
    for build in KINDS:
        calls = Calls(False)
        first = calls.compiled(build, old)
        calls.invoke(first, {"log": []})
        unaware = build(new, None).compile(calls.saver)
        assert interrupts_of(unaware) != interrupts_of(first)


@pytest.mark.parametrize("when", ["before", "after"])
def test_run_stopped_at_breakpoint_continues_under_new_node_name(when: str) -> None:
    calls = Calls(False)
    first = calls.compiled(in_a_row, old, **{f"interrupt_{when}": ["plan"]})
    calls.invoke(first, {"log": []})
    renamed = calls.compiled(in_a_row, new, **{f"interrupt_{when}": ["draft"]})
    assert renamed.get_state(CONFIG).next == (("draft",) if when == "before" else ("ask",))
    calls.invoke(renamed, None)
    assert interrupts_of(renamed).keys() == {"Well?"}
    assert renamed.get_state(CONFIG).values == {"notes": ["plan"], "amount": 1}


def test_once_result_stored_before_node_rename_is_reused_after_rename() -> None:
    done = []

    def build(name: Callable[[str], str], fails: bool) -> StateGraph:
        def node(state: Any) -> Any:
            once("pay", lambda: done.append("paid"))
            if fails:
                raise Crash
            return {name("log"): ["well"]}

        return graph_of(name).add_node(name("review"), node).add_edge(START, name("review"))

    saver = InMemorySaver()
    with pytest.raises(Crash):
        build(old, True).compile(saver).invoke({"log": []}, CONFIG)
    renamed = build(new, False).compile(saver, renamed={"review": "ask", "log": "notes"})
    assert renamed.invoke(None, CONFIG) == {"notes": ["well"], "amount": 0}
    assert done == ["paid"]


def test_result_of_finished_sibling_of_crashed_node_is_reused_after_both_are_renamed() -> None:
    ran = []

    def build(name: Callable[[str], str], crashes: bool) -> StateGraph:
        def left(state: Any) -> Any:
            ran.append("left")
            return {name("log"): ["left"]}

        def right(state: Any) -> Any:
            if crashes:
                raise Crash
            return {name("log"): ["right"]}

        graph = graph_of(name).add_node(name("left"), left).add_node(name("right"), right)
        return graph.add_edge(START, name("left")).add_edge(START, name("right"))

    saver = InMemorySaver()
    with pytest.raises(Crash):
        build(old, True).compile(saver).invoke({"log": []}, {**CONFIG, "max_concurrency": 1})
    graph = build(new, False).compile(
        saver, renamed={"left": "west", "right": "east", "log": "notes"}
    )
    assert sorted(graph.invoke(None, CONFIG)["notes"]) == ["left", "right"]
    assert ran == ["left"]


def test_thread_paused_under_any_older_node_name_resumes_through_chain_of_renames() -> None:
    def build(node: str, saver: Any, renamed: Any = None) -> Any:
        graph = graph_of(old).add_node(node, asks(old, "Well?")).add_edge(START, node)
        graph.add_node("end", asks(old, "End?")).add_edge(node, "end")
        return graph.compile(saver, renamed=renamed)

    chains = {"a": "b", "b": "c"}, {"a": "c", "b": "c"}
    for chain in chains:
        for stages in ("abc", "bc", "ac", "abcc"):
            saver = InMemorySaver()
            known = {"a": None, "b": {"a": "b"}, "c": chain}
            graphs = [build(stage, saver, known[stage]) for stage in stages]
            graphs[0].invoke({"log": []}, CONFIG)
            asked = interrupts_of(graphs[0])
            for graph in graphs[1:]:
                assert interrupts_of(graph) == asked
            graphs[-1].invoke(Command(resume=dict.fromkeys(asked.values(), "yes")), CONFIG)
            asked = interrupts_of(graphs[-1])
            assert asked.keys() == {"End?"}
            graphs[-1].invoke(Command(resume="done"), CONFIG)
            assert graphs[-1].get_state(CONFIG).values["log"] == ["yes", 0, "done", 0]


def test_renames_declared_after_pause_preserve_the_pending_interrupts() -> None:
    saver = InMemorySaver()
    silent = in_a_row(new, None).compile(saver)
    silent.invoke({"notes": []}, CONFIG)
    asked = interrupts_of(silent)
    aware = in_a_row(new, None).compile(
        saver, renamed={"plan": "draft", "review": "ask", "pay": "settle", "total": "amount"}
    )
    assert interrupts_of(aware) == asked
    assert aware.invoke(Command(resume="yes"), CONFIG)["notes"] == ["plan", "yes", 1, "pay"]


@pytest.mark.parametrize(
    ("renamed", "message"),
    [
        ({"review": "ask"}, "'review' as an old name, but the graph still has it"),
        ({"gone": "nothing"}, "'nothing' as a new name, but the graph doesn't have it"),
        ({"a": "b", "b": "a"}, "contains a cycle: 'a' -> 'b' -> 'a'"),
        ({"a": "a"}, "contains a cycle: 'a' -> 'a'"),
        ({"__start__": "plan"}, "'__start__', which is not a node or channel name"),
        ({"log": "total"}, "'log' as an old name, but the graph still has it"),
    ],
)
def test_compile_with_invalid_renames_raises_graph_definition_error(
    renamed: Any, message: str
) -> None:
    with pytest.raises(GraphDefinitionError) as caught:
        in_a_row(old, None).compile(renamed=renamed)
    assert message in str(caught.value)


def test_list_changes_reports_two_nodes_renamed_to_the_same_name() -> None:
    saver = InMemorySaver()
    first = side_by_side(old, None).compile(saver)
    first.invoke({"log": []}, CONFIG)
    graph = graph_of(old).add_node("one", asks(old, "?")).add_edge(START, "one")
    merged = graph.compile(saver, renamed={"left": "one", "right": "one"})
    found = list_changes(describe_structure(first), merged, lambda ns: saver.get_tuple(CONFIG))
    assert found == ["nodes 'left', 'right' were renamed to the same name, 'one'"]


def test_interrupt_in_pregel_graph_resumes_after_rename_of_its_channels() -> None:
    from hitl_django.engine.graph.node_builder import NodeBuilder
    from hitl_django.engine.graph.pregel import Pregel

    def build(name: Callable[[str], str], saver: Any) -> Any:
        node = NodeBuilder().subscribe_only(name("total")).do(
            lambda value: interrupt(value)
        ).write_to("out")  # fmt: skip
        return Pregel(
            nodes={"node": node},
            channels={name("total"): LastValue(str), "out": LastValue(str)},
            input_channels=name("total"),
            output_channels="out",
            checkpointer=saver,
        )

    saver = InMemorySaver()
    build(old, saver).invoke("well?", CONFIG)
    renamed = build(new, saver).with_renames({"total": "amount"})
    assert interrupts_of(renamed) == interrupts_of(build(old, saver))
    assert renamed.invoke(Command(resume="yes"), CONFIG) == "yes"
