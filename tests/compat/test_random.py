"""Random graphs with the same results in both engines."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.random_graphs import GraphSpec, build, graphs

from .driving import CONFIG, outcome, snapshot
from .engines import LANGGRAPH, OURS, Engine
from .test_savers import ELSEWHERE

pytestmark = pytest.mark.filterwarnings("ignore")

#: More calls than any of these graphs needs to come to its end.
ENOUGH = 25


def played(
    engine: Engine,
    spec: GraphSpec,
    way: str,
    style: str,
    compiled: dict[str, Any],
    durability: str = "sync",
) -> list[Any]:
    """Run a graph to its end, answering what it asks, and return all that was seen."""
    graph = build(engine, spec).compile(checkpointer=engine.InMemorySaver(), **compiled)
    config = {**CONFIG, "recursion_limit": 40}
    given_input: Any = {"log": ["input"], "total": 0}
    lines: list[Any] = []
    if style == "value" and asks_and_calls(spec):
        style = "all"
    for _ in range(ENOUGH):
        lines.append(outcome(graph, given_input, config, way, {"durability": durability}))
        seen = graph.get_state(config)
        lines.append(snapshot(seen))
        if not seen.next or failed(lines[-2]):
            break
        given_input = reply(engine, seen.interrupts, style)
    lines += [snapshot(record) for record in graph.get_state_history(config)]
    return lines


def asks_and_calls(spec: GraphSpec) -> bool:
    """Return whether a node has an interrupt and then calls a graph.

    LangGraph also uses a value without an id, given for the interrupt, for later interrupts of the
    called graph (docs/explanation/differences.md).
    """
    return any(
        node.child is not None and ((node.called and node.interrupts) or asks_and_calls(node.child))
        for node in spec.nodes
    )


def failed(told: Any) -> bool:
    """Return whether a call ended in an error, such as the step limit's."""
    ended = told[-1] if isinstance(told, list) else told
    return isinstance(ended, tuple) and ended[0] == "Error"


def reply(engine: Engine, interrupts: Any, style: str) -> Any:
    """Answers all open questions, or one of them, by id or by value."""
    asked = sorted(interrupts, key=lambda one: one.value)
    if not asked:
        return None
    if style == "value" and len(asked) == 1:
        return engine.Command(resume=f"re {asked[0].value}")
    if style == "first":
        asked = asked[:1]
    if style == "last":
        asked = asked[-1:]
    return engine.Command(resume={one.id: f"re {one.value}" for one in asked})


STYLES = st.sampled_from(["all", "first", "last", "value"])
#: A run tries the same few graphs each time; ORACLE_GRAPHS=2000 tries that many new ones.
WANTED = os.environ.get("ORACLE_GRAPHS", "")
PROFILE = settings(
    max_examples=int(WANTED or settings().max_examples),
    derandomize=not WANTED,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(PROFILE)
@given(spec=graphs(), style=STYLES)
def test_random_graph_invoke_transcript_matches_langgraph(spec: GraphSpec, style: str) -> None:
    assert played(OURS, spec, "invoke", style, {}) == played(LANGGRAPH, spec, "invoke", style, {})


@settings(PROFILE)
@given(spec=graphs(), style=STYLES)
def test_random_graph_transcript_with_third_party_saver_matches_langgraph(
    spec: GraphSpec, style: str
) -> None:
    ours = played(ELSEWHERE, spec, "invoke", style, {})
    assert ours == played(LANGGRAPH, spec, "invoke", style, {})


@settings(PROFILE)
@given(spec=graphs(), style=STYLES)
def test_random_graph_transcript_with_exit_durability_matches_langgraph(
    spec: GraphSpec, style: str
) -> None:
    ours = played(OURS, spec, "invoke", style, {}, "exit")
    assert ours == played(LANGGRAPH, spec, "invoke", style, {}, "exit")


@settings(PROFILE)
@given(spec=graphs(), style=STYLES)
def test_random_graph_ainvoke_transcript_matches_langgraph(spec: GraphSpec, style: str) -> None:
    ours = played(OURS, spec, "ainvoke", style, {})
    assert ours == played(LANGGRAPH, spec, "ainvoke", style, {})


@settings(PROFILE)
@given(spec=graphs(depth=0), style=STYLES)
def test_random_graph_stream_transcript_matches_langgraph(spec: GraphSpec, style: str) -> None:
    assert played(OURS, spec, "stream", style, {}) == played(LANGGRAPH, spec, "stream", style, {})


@settings(PROFILE)
@given(spec=graphs(depth=0), style=STYLES)
def test_random_graph_astream_transcript_matches_langgraph(spec: GraphSpec, style: str) -> None:
    ours = played(OURS, spec, "astream", style, {})
    assert ours == played(LANGGRAPH, spec, "astream", style, {})


@settings(PROFILE)
@given(
    spec=graphs(depth=0),
    before=st.sets(st.sampled_from(["n0", "n1", "n2"])),
    after=st.sets(st.sampled_from(["n0", "n1", "n2"])),
)
def test_random_graph_transcript_with_breakpoints_matches_langgraph(
    spec: GraphSpec, before: set[str], after: set[str]
) -> None:
    names = {node.name for node in spec.nodes}
    compiled = {
        "interrupt_before": sorted(before & names),
        "interrupt_after": sorted(after & names),
    }
    ours = played(OURS, spec, "invoke", "all", compiled)
    assert ours == played(LANGGRAPH, spec, "invoke", "all", compiled)
