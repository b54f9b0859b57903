"""Checkpoints of earlier formats, resumed by both engines."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

import pytest

from hitl_django.engine.channels import EphemeralValue
from hitl_django.engine.loop import checkpoint_upgrade
from hitl_django.engine.loop.channel_state import restore_channels

from .engines import LANGGRAPH, OURS, Engine

CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def says(word: str) -> Callable[[Any], Any]:
    return lambda state: {"log": [f"{word}:{state if isinstance(state, str) else 'state'}"]}


def built(engine: Engine, *nodes: str, edges: str = "", conditional: Any = None) -> Any:
    """A graph of nodes that say their names; edges as ``in-a a-b a+b-c c-out``."""
    graph = engine.StateGraph(State)
    for name in nodes:
        graph.add_node(name, says(name))
    for edge in edges.split():
        start, end = (part.strip() for part in edge.split("-"))
        ends = {"in": engine.START, "out": engine.END}
        starts = start.split("+")
        graph.add_edge(starts if len(starts) > 1 else ends.get(start, start), ends.get(end, end))
    for start, path, targets in conditional or ():
        graph.add_conditional_edges(engine.START if start == "in" else start, path, targets)
    return graph


@dataclass(frozen=True)
class Case:
    """A checkpoint of an earlier layout, and the graph that takes it up.

    ``seen`` and ``versions`` count; ``values`` leave out the log. ``before`` are breakpoints.
    """

    name: str
    graph: Callable[[Engine], Any]
    versions: dict[str, int]
    seen: dict[str, dict[str, int]]
    values: dict[str, Any]
    v: int = 1
    sends: tuple[tuple[str, Any], ...] = ()
    before: tuple[str, ...] = ()
    due: tuple[str, ...] = ()


def line(engine: Engine) -> Any:
    return built(engine, "a", "b", edges="in-a a-b b-out")


def wide(engine: Engine) -> Any:
    return built(engine, "a", "b", "c", edges="in-a a-b a-c b-out c-out")


def joined(engine: Engine) -> Any:
    return built(engine, "a", "b", "c", edges="in-a in-b a+b-c c-out")


def choosing(engine: Engine) -> Any:
    either = ["b", "c"]
    paths = [("a", lambda state: "c", either)]
    return built(engine, "a", "b", "c", edges="in-a b-out c-out", conditional=paths)


def entering(engine: Engine) -> Any:
    paths = [("in", lambda state: "b", ["a", "b"])]
    return built(engine, "a", "b", edges="a-out b-out", conditional=paths)


def turning(engine: Engine) -> Any:
    paths = [("b", lambda state: "a" if len(state["log"]) < 5 else engine.END, ["a", engine.END])]
    return built(engine, "a", "b", edges="in-a a-b", conditional=paths)


IN = {"__input__": {}, "__start__": {"__start__": 1}}
RAN_A = {**IN, "a": {"start:a": 2}}

CASES = [
    Case("the first node is due", line, {"__start__": 2, "log": 2, "start:a": 2}, IN,
         {"start:a": "__start__"}, due=("a",)),
    Case("the first node has run", line, {"__start__": 2, "log": 3, "start:a": 3, "a": 3}, RAN_A,
         {"a": "a"}, due=("b",)),
    Case("all have run", line,
         {"__start__": 2, "log": 4, "start:a": 3, "a": 4, "b": 4}, {**RAN_A, "b": {"a": 3}},
         {"b": "b"}),
    Case("two follow one", wide, {"__start__": 2, "log": 3, "start:a": 3, "a": 3}, RAN_A,
         {"a": "a"}, due=("b", "c")),
    Case("of two, one has been seen", wide, {"__start__": 2, "log": 3, "start:a": 3, "a": 3},
         {**RAN_A, "b": {"a": 3}}, {"a": "a"}, due=("c",)),
    Case("a condition has chosen", choosing,
         {"__start__": 2, "log": 3, "start:a": 3, "a": 3, "branch:a:path:c": 3}, RAN_A,
         {"a": "a", "branch:a:path:c": "a"}, due=("c",)),
    Case("a condition has chosen at the start", entering,
         {"__start__": 2, "log": 2, "branch:__start__:path:b": 2}, IN,
         {"branch:__start__:path:b": "__start__"}, due=("b",)),
    Case("a condition leads back", turning,
         {"__start__": 2, "log": 4, "start:a": 3, "a": 4, "b": 4, "branch:b:path:a": 4},
         {**RAN_A, "b": {"a": 3}}, {"b": "b", "branch:b:path:a": "b"}, due=("a",)),
    Case("the second round", turning,
         {"__start__": 2, "log": 5, "start:a": 3, "a": 5, "b": 5, "branch:b:path:a": 5},
         {**IN, "a": {"start:a": 2, "branch:b:path:a": 4}, "b": {"a": 3}}, {"a": "a"}, due=("b",)),
    Case("one of two has come to the join", joined,
         {"__start__": 2, "log": 3, "start:a": 3, "start:b": 2, "a": 3, "join:a+b:c": 3}, RAN_A,
         {"a": "a", "start:b": "__start__", "join:a+b:c": {"a"}}, due=("b",)),
    Case("both have come to the join", joined,
         {"__start__": 2, "log": 3, "start:a": 3, "start:b": 3, "a": 3, "b": 3, "join:a+b:c": 3},
         {**RAN_A, "b": {"start:b": 2}}, {"a": "a", "b": "b", "join:a+b:c": {"a", "b"}},
         due=("c",)),
    Case("it waits at a breakpoint", line, {"__start__": 2, "log": 3, "start:a": 3, "a": 3},
         {**RAN_A, "__interrupt__": {"__start__": 2, "log": 3, "start:a": 3, "a": 3}},
         {"a": "a"}, before=("b",), due=("b",)),
    Case("it has passed the breakpoint before", line,
         {"__start__": 2, "log": 3, "start:a": 3, "a": 3},
         {**RAN_A, "__interrupt__": {"__start__": 2, "log": 2, "start:a": 2}}, {"a": "a"},
         before=("b",), due=("b",)),
    Case("packets were sent", wide, {"__start__": 2, "log": 3, "start:a": 3, "a": 3},
         {**RAN_A, "b": {"a": 3}, "c": {"a": 3}}, {}, sends=(("b", "one"), ("c", "two")),
         due=("b", "c")),
    Case("packets were sent, in the third layout", wide,
         {"__start__": 2, "log": 3, "branch:to:a": 3}, {**IN, "a": {"branch:to:a": 2}}, {}, v=3,
         sends=(("b", "one"), ("b", "two")), due=("b", "b")),
    Case("the third layout", line, {"__start__": 2, "log": 3, "branch:to:a": 3, "branch:to:b": 3},
         {**IN, "a": {"branch:to:a": 2}}, {"branch:to:b": None}, v=3, due=("b",)),
    Case("the second layout", wide, {"__start__": 2, "log": 3, "start:a": 3, "a": 3}, RAN_A,
         {"a": "a"}, v=2, due=("b", "c")),
    Case("a node that is gone", line,
         {"__start__": 2, "log": 3, "start:a": 3, "a": 3, "start:gone": 3, "branch:a:p:gone": 3},
         RAN_A, {"a": "a", "start:gone": "x"}, due=("b",)),
    Case("before any input", line, {}, {}, {}),
]  # fmt: skip
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def version_of(engine: Engine, count: int) -> Any:
    """LangGraph's in-memory versions are texts, ours are numbers."""
    return count << 32 if engine is OURS else f"{count:032}.0"


def stored(engine: Engine, case: Case) -> dict[str, Any]:
    """The checkpoint as an earlier release would have stored it."""

    def versions(counts: dict[str, int]) -> dict[str, Any]:
        return {name: version_of(engine, count) for name, count in counts.items()}

    return {
        "v": case.v,
        "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
        "ts": "2024-07-31T20:14:19.804150+00:00",
        "channel_values": {**({"log": ["in"]} if case.versions else {}), **case.values},
        "channel_versions": versions(case.versions),
        "versions_seen": {name: versions(read) for name, read in case.seen.items()},
        "pending_sends": [engine.Send(*send) for send in case.sends],
    }


def opened(engine: Engine, case: Case) -> Any:
    """The graph, standing at the checkpoint."""
    saver = engine.InMemorySaver()
    checkpoint = stored(engine, case)
    metadata = {"source": "loop", "step": 1, "writes": None, "parents": {}}
    saver.put(CONFIG, checkpoint, metadata, checkpoint["channel_versions"])
    return case.graph(engine).compile(checkpointer=saver, interrupt_before=list(case.before))


def seen_of(graph: Any) -> Any:
    state = graph.get_state(CONFIG)
    return state.values, sorted(state.next), [task.name for task in state.tasks]


@by_name
def test_checkpoint_of_old_layout_has_values_and_next_nodes_of_langgraph(case: Case) -> None:
    found = [seen_of(opened(engine, case)) for engine in (LANGGRAPH, OURS)]
    assert found[0] == found[1]
    assert tuple(found[1][1]) == case.due


@by_name
def test_resume_from_checkpoint_of_old_layout_streams_updates_of_langgraph(
    case: Case,
) -> None:
    if not case.versions:
        return
    found = []
    for engine in (LANGGRAPH, OURS):
        graph = opened(engine, case)
        chunks = list(graph.stream(None, CONFIG, stream_mode="updates"))
        chunks += list(graph.stream(None, CONFIG, stream_mode="updates"))
        found.append((chunks, seen_of(graph)))
    assert found[0] == found[1]


@by_name
def test_state_after_new_input_on_checkpoint_of_old_layout_matches_langgraph(case: Case) -> None:
    found = []
    for engine in (LANGGRAPH, OURS):
        graph = opened(engine, case)
        for _ in range(3):
            graph.invoke({"log": ["more"]}, CONFIG)
        found.append(seen_of(graph))
    assert found[0] == found[1]


@by_name
def test_restoring_channels_of_old_checkpoint_does_not_change_the_checkpoint(case: Case) -> None:
    graph = case.graph(OURS).compile()
    checkpoint = stored(OURS, case)
    before = copy.deepcopy(checkpoint)
    restore_channels(graph.spec, checkpoint)
    assert checkpoint == before


def test_checkpoint_of_current_layout_is_not_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl_django.engine.loop.channel_state.upgrade_checkpoint", None)
    graph = line(OURS).compile(checkpointer=OURS.InMemorySaver())
    graph.invoke({"log": ["in"]}, CONFIG)
    assert graph.get_state(CONFIG).values["log"] == ["in", "a:state", "b:state"]


def failing_once() -> Case:
    """The first node has run, and the second fails when it is first called."""
    failures = [RuntimeError("for once")]

    def node(state: Any) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return {"log": ["b"]}

    def graph(engine: Engine) -> Any:
        made = engine.StateGraph(State).add_node("a", says("a")).add_node("b", node)
        return made.add_edge(engine.START, "a").add_edge("a", "b").add_edge("b", engine.END)

    return replace(CASES[1], graph=graph)


def test_fork_of_checkpoint_of_old_layout_stores_triggers_and_continues() -> None:
    graph = opened(OURS, failing_once())
    with pytest.raises(RuntimeError, match="once"):
        graph.invoke(None, graph.get_state(CONFIG).config)
    forked = graph.get_state(CONFIG)
    assert (forked.metadata["source"], forked.next) == ("fork", ("b",))
    assert graph.invoke(None, CONFIG)["log"] == ["in", "b"]


def test_failed_run_on_checkpoint_of_old_layout_stores_no_second_checkpoint() -> None:
    graph = opened(OURS, failing_once())
    with pytest.raises(RuntimeError, match="once"):
        graph.invoke(None, CONFIG, durability="exit")
    [only] = graph.saver.list(CONFIG)
    assert (only.checkpoint["v"], only.parent_config) == (1, None)
    assert graph.invoke(None, CONFIG)["log"] == ["in", "b"]


def test_checkpoint_upgrade_computes_value_of_a_trigger_with_its_channel_class() -> None:
    class Twice(EphemeralValue):  # type: ignore[type-arg]
        def fold(self, held: Any, writes: Any) -> Any:
            return [writes[-1]] * 2

    graph = line(OURS).compile()
    channels = {**graph.channels, "branch:to:b": Twice(Any, "branch:to:b")}
    found = checkpoint_upgrade.upgrade_checkpoint(stored(OURS, CASES[1]), graph.nodes, channels)
    assert found["channel_values"]["branch:to:b"] == ["a", "a"]
