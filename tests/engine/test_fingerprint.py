"""Changes of a graph with which a paused thread can be resumed."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest

from hitl_django import Command, StateGraph, interrupt
from hitl_django.engine.channels import DeltaChannel
from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.fingerprint import describe_structure, hash_structure, list_changes
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.types import Send

from .graphs import CONFIG

Edit = Callable[["Plan"], Any]


def keep(old: list[str], new: list[str]) -> list[str]:
    return [*old, *new]


def add(old: list[str], new: list[str]) -> list[str]:
    return [*old, *new]


def join(old: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*old, *(item for write in writes for item in write)]


def unite(old: set[str], writes: Sequence[set[str]]) -> set[str]:
    return old.union(*writes)


def says(name: str) -> Callable[[Any], Any]:
    return lambda state: {"log": [name]}


def asks(*pending_interrupts: str) -> Callable[[Any], Any]:
    return lambda state: {"log": [interrupt(payload) for payload in pending_interrupts][-1:]}


class Plan:
    """A graph before it is built: what the edits edit.

    ``audit`` has ended when the thread is paused at ``review``, at ``ask`` within ``inner`` and at
    the two tasks that were sent to ``each``; ``done`` waits for audit and pay.
    """

    def __init__(self) -> None:
        self.state: dict[str, Any] = {
            "amount": int,
            "log": Annotated[list[str], operator.add],
            "note": str,
        }
        self.inner: dict[str, Any] = {"look": says("look"), "ask": asks("inner?")}
        self.nodes: dict[str, Any] = {
            "prepare": says("prepare"),
            "audit": says("audit"),
            "fan": says("fan"),
            "review": asks("review?"),
            "each": asks("each?"),
            "pay": says("pay"),
            "done": says("done"),
        }
        self.edges: list[Any] = [
            (START, "prepare"),
            (START, "audit"),
            (START, "fan"),
            ("prepare", "review"),
            ("prepare", "inner"),
            ("review", "pay"),
            (["audit", "pay"], "done"),
        ]
        self.deferred: set[str] = set()
        self.sent_to = "each"
        self.options: dict[str, Any] = {}

    def build(self) -> Pregel:
        state = TypedDict("state", self.state, total=False)  # type: ignore[misc]
        graph = StateGraph(state)
        for name, node in self.nodes.items():
            graph.add_node(name, node, defer=name in self.deferred)
        if self.inner:
            below = StateGraph(state)
            for name, node in self.inner.items():
                below.add_node(name, node)
            first, *others = self.inner
            below.add_edge(START, first)
            for source, target in zip([first, *others], others, strict=False):
                below.add_edge(source, target)
            graph.add_node("inner", below.compile())
        for source, target in self.edges:
            graph.add_edge(source, target)
        graph.add_conditional_edges("fan", lambda state: [Send(self.sent_to, {})] * 2)
        return graph.compile(InMemorySaver(), **self.options)


def rename(nodes: dict[str, Any], old: str, new: str) -> None:
    nodes[new] = nodes.pop(old)


def renamed(plan: Plan, old: str, new: str) -> None:
    rename(plan.nodes, old, new)
    plan.edges = [
        tuple(new if end == old else [new if e == old else e for e in end]
              if isinstance(end, list) else end for end in edge)
        for edge in plan.edges
    ]  # fmt: skip


def without(plan: Plan, name: str) -> None:
    del plan.nodes[name]
    plan.edges = [edge for edge in plan.edges if name not in edge and name not in edge[0]]


EDITS: dict[str, tuple[Edit, str | None]] = {
    "nothing": (lambda plan: None, None),
    "another body of the payload node": (
        lambda plan: plan.nodes.update(review=asks("review, please?")),
        None,
    ),
    "a question before the payload one": (
        lambda plan: plan.nodes.update(review=asks("sure?", "review?")),
        None,
    ),
    "a new node behind": (
        lambda plan: (plan.nodes.update(mail=says("mail")), plan.edges.append(("done", "mail"))),
        None,
    ),
    "a new node before": (
        lambda plan: (
            plan.nodes.update(early=says("early")),
            plan.edges.extend([(START, "early"), ("early", "review")]),
        ),
        None,
    ),
    "a node gone that comes later": (lambda plan: without(plan, "done"), None),
    "a node renamed that has run": (lambda plan: renamed(plan, "prepare", "ready"), None),
    "edges in another order": (lambda plan: plan.edges.reverse(), None),
    "another edge from the payload node": (lambda plan: plan.edges.append(("review", END)), None),
    "a new channel": (lambda plan: plan.state.update(more=int), None),
    "a channel gone that held nothing": (lambda plan: plan.state.pop("note"), None),
    "a wider type": (lambda plan: plan.state.update(amount=float | None), None),
    "a reducer of the same name elsewhere": (
        lambda plan: plan.state.update(log=Annotated[list[str], add]),
        None,
    ),
    "a DeltaChannel in place of a reducer": (
        lambda plan: plan.state.update(log=Annotated[list[str], DeltaChannel(join)]),
        None,
    ),
    "a DeltaChannel whose type the value is not of": (
        lambda plan: plan.state.update(log=Annotated[set[str], DeltaChannel(unite)]),
        "channel 'log' changed from list, and its value is not a valid set",
    ),
    "a breakpoint": (lambda plan: plan.options.update(interrupt_before=["done"]), None),
    "a new node in the graph below": (lambda plan: plan.inner.update(tell=says("tell")), None),
    "the payload node renamed": (
        lambda plan: renamed(plan, "review", "check"),
        "node 'review' was removed",
    ),
    "the payload node gone": (lambda plan: without(plan, "review"), "node 'review' was removed"),
    "the payload node waits for others": (
        lambda plan: plan.edges.append((["audit", "prepare"], "review")),
        "node 'review' is triggered by different edges",
    ),
    "the payload node deferred": (
        lambda plan: plan.deferred.add("review"),
        "node 'review' has a different trigger condition",
    ),
    "a join of other nodes": (
        lambda plan: plan.edges.__setitem__(-1, (["audit", "review"], "done")),
        "node 'done' no longer waits for audit, pay",
    ),
    "a channel gone that holds a value": (
        lambda plan: plan.state.pop("amount"),
        "channel 'amount', which has a value, was removed",
    ),
    "another reducer": (
        lambda plan: plan.state.update(log=Annotated[list[str], keep]),
        "channel 'log', which has a value, changed its reducer from add to keep",
    ),
    "no reducer": (
        lambda plan: plan.state.update(log=list[str]),
        "channel 'log', which has a value, changed from BinaryOperatorAggregate to LastValue",
    ),
    "a type that the value is not of": (
        lambda plan: plan.state.update(amount=str),
        "channel 'amount' changed from int, and its value is not a valid str",
    ),
    "the payload node renamed in the graph below": (
        lambda plan: rename(plan.inner, "ask", "query"),
        "node 'ask' in 'inner' was removed",
    ),
    "a function where the graph was": (
        lambda plan: (plan.inner.clear(), plan.nodes.update(inner=says("inner"))),
        "node 'inner' no longer calls the subgraph it is waiting in",
    ),
    "what was sent to is gone": (
        lambda plan: (renamed(plan, "each", "every"), setattr(plan, "sent_to", "every")),
        "node 'each' was removed",
    ),
}


@pytest.mark.promise("P15")
@pytest.mark.parametrize("name", EDITS)
def test_edited_graph_resumes_paused_thread_or_lists_the_incompatible_change(name: str) -> None:
    edit, fault = EDITS[name]
    paused = Plan().build()
    paused.invoke({"amount": 5}, CONFIG)
    plan = Plan()
    edit(plan)
    edited = plan.build().with_saver(paused.saver)

    def load(ns: str) -> Any:
        place = {**CONFIG["configurable"], "checkpoint_ns": ns}
        return paused.saver.get_tuple({"configurable": place})

    before = json.loads(json.dumps(describe_structure(paused)))
    found = list_changes(before, edited, load)
    if fault is not None:
        assert fault in found
        if "'amount'" in fault or "'log'" in fault:
            assert fault in list_changes(before, edited, load, new_input=True)
        return
    assert found == list_changes(before, edited, load, new_input=True) == []

    # It does go on: each open question takes its answer, and the run comes to its end.
    while asked := edited.get_state(CONFIG).interrupts:
        edited.invoke(Command(resume={one.id: f"to {one.value}" for one in asked}), CONFIG)
    while edited.get_state(CONFIG).next:
        edited.invoke(None, CONFIG)
    log = edited.get_state(CONFIG).values["log"]
    assert log.count("to each?") == 2
    assert {"audit", "pay"} <= {*log}


@pytest.mark.promise("P15")
@pytest.mark.parametrize("name", [name for name, (_, fault) in EDITS.items() if fault])
def test_list_changes_for_finished_thread_reports_only_edits_of_state_keys(name: str) -> None:
    edit, fault = EDITS[name]
    ended = Plan().build()
    ended.invoke({"amount": 5}, CONFIG)
    asked = ended.get_state(CONFIG).interrupts
    ended.invoke(Command(resume={one.id: "yes" for one in asked}), CONFIG)
    assert ended.get_state(CONFIG).next == ()
    plan = Plan()
    edit(plan)
    found = list_changes(
        describe_structure(ended),
        plan.build(),
        lambda ns: ended.saver.get_tuple({"configurable": {**CONFIG["configurable"]}}),
    )
    holds = fault is not None and ("'amount'" in fault or "'log'" in fault)
    assert found == ([fault] if holds else [])


def test_graph_fingerprint_does_not_depend_on_node_bodies_or_edge_order() -> None:
    plan = Plan()
    plan.nodes["review"] = asks("something else?")
    plan.edges.reverse()
    assert hash_structure(describe_structure(plan.build())) == hash_structure(
        describe_structure(Plan().build())
    )


def test_graph_fingerprint_changes_with_every_structural_edit() -> None:
    bodies = {name for name in EDITS if "body" in name or "question" in name or "order" in name}
    same = {*bodies, "nothing", "a breakpoint", "a reducer of the same name elsewhere"}
    same.add("another edge from the payload node")  # END starts nothing
    for name in EDITS.keys() - same:
        plan = Plan()
        EDITS[name][0](plan)
        assert hash_structure(describe_structure(plan.build())) != hash_structure(
            describe_structure(Plan().build())
        )


def test_describe_structure_of_graph_calling_itself_omits_the_recursive_call() -> None:
    graph: Any = None

    def again(state: Any) -> Any:
        return graph.invoke(state)

    graph = StateGraph(dict).add_node("again", again).add_edge(START, "again").compile()
    assert "calls" not in describe_structure(graph)["nodes"]["again"]
