"""Nodes and edges from ``get_graph``, compared with LangGraph's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from .driving import Case
from .engines import LANGGRAPH, OURS
from .test_cases import CASES

pytestmark = pytest.mark.filterwarnings("ignore")

#: LangGraph finds edges by going through the graph as a run would, with the writes that don't
#: depend on the state. What such a run doesn't meet has no edges there, and what a deferred node
#: waits for looks like an edge to it.
DEFERRED = {
    "two_deferred_nodes_in_a_row",
    "a_deferred_join",
    "a_deferred_graph",
    "a_deferred_node_at_the_entry",
    "a_deferred_node_that_asks",
    "a_packet_to_a_deferred_node",
}
#: Of two keys of a branch that lead to one node it draws the first.
DRAWN_ONCE = {"a_branch_by_two_keys_of_one_node"}
#: It draws nothing of a subgraph that has an error handler, or one that jumps to its parent alone.
NOT_EXPANDED = {
    "a_jump_to_the_grandparent_by_way_of_the_parent",
    "a_command_to_the_parent_is_nothing_for_a_handler",
    "a_handler_within_a_subgraph",
    "a_handler_below_asks",
}
#: It can't draw a graph whose cache key is a function of the state.
REFUSED = {"a_result_is_used_again_for_the_same_input", "another_key_is_another_result"}


def drawn(engine: Any, case: Case, xray: int | bool) -> tuple[set[str], set[tuple[Any, ...]]]:
    graph = case.build(engine).compile()
    drawing = graph.get_graph(xray=xray)
    edges = {(e.source, e.target, e.data, e.conditional) for e in drawing.edges}
    return set(drawing.nodes), edges


def once_per_shape() -> Iterator[Any]:
    """Yield every case at every depth as parameters, those of a repeated drawing as ``matrix``."""
    seen: set[tuple[Any, ...]] = set()
    for case, xray in product(CASES, (False, 1, True)):
        if case.name in REFUSED:
            continue
        nodes, edges = drawn(OURS, case, xray)
        shape = (frozenset(nodes), frozenset(edges))
        marks = pytest.mark.matrix if shape in seen else ()
        seen.add(shape)
        yield pytest.param(case, xray, id=f"{case.name}-{xray}", marks=marks)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw the cases of this run only."""
    if "xray" in metafunc.fixturenames:
        metafunc.parametrize(("case", "xray"), once_per_shape())


def test_graph_drawing_has_nodes_and_edges_of_langgraph(case: Case, xray: int | bool) -> None:
    (nodes, edges), (their_nodes, their_edges) = (
        drawn(OURS, case, xray),
        drawn(LANGGRAPH, case, xray),
    )
    if case.name in NOT_EXPANDED and xray:
        assert their_nodes - nodes
        assert nodes - their_nodes
        return
    assert nodes == their_nodes
    if case.name in DEFERRED:
        # Theirs are conditional edges, though nothing there chooses.
        theirs = {edge for edge in their_edges if not edge[3]}
        assert theirs <= edges
        assert {source for source, *_ in edges - theirs} == {
            source for source, *_ in their_edges - theirs
        }
        return
    met = {source for source, *_ in their_edges}
    ours = {edge for edge in edges if edge[0] in met}
    # A workflow always ends after its one node; LangGraph calls that a condition.
    flow = {edge for edge in their_edges if edge[0].split(":")[0] == "flow" and edge[3]}
    theirs = {(*edge[:3], False) if edge in flow else edge for edge in their_edges}
    if case.name in DRAWN_ONCE:
        assert theirs < ours
        return
    assert ours == theirs


def edited(engine: Any) -> Any:
    """Return the results of LangChain's editing methods on a drawing."""
    graph = engine.StateGraph(dict).add_node("a", lambda state: state)
    drawing = graph.add_edge(engine.START, "a").compile().get_graph()
    unnamed = drawing.add_node(RunnableLambda(str, name="checks"))
    named = drawing.add_node(None, id="b", metadata={"by": "me"})
    added = drawing.add_edge(drawing.nodes["a"], named, "label", True)
    drawing.add_edge(named, unnamed)
    first, last = drawing.extend(graph.compile().get_graph(), prefix="below")
    again = drawing.reid()
    edges = [tuple(edge) for edge in again.edges]
    with pytest.raises(ValueError, match="already exists"):
        drawing.add_node(None, id="b")
    drawing.remove_node(named)
    with pytest.raises(ValueError, match="not in graph"):
        drawing.add_edge(named, unnamed)
    source, target, *_ = drawing.edges[0]
    return (
        [(node.id, node.name, node.metadata) for node in again.nodes.values()],
        edges,
        (tuple(added), first.id, last.id, source, target, len(drawing.edges)),
        (bool(drawing), "curve" in drawing.draw_mermaid(with_styles=False)),
    )


def test_edited_drawing_has_nodes_and_edges_of_edited_langgraph_drawing() -> None:
    assert edited(OURS) == edited(LANGGRAPH)


def test_edited_drawing_is_drawn_with_added_and_without_removed_nodes() -> None:
    graph = OURS.StateGraph(dict).add_node("a", dict).add_edge(OURS.START, "a")
    drawing = graph.compile().get_graph()
    drawing.add_edge(drawing.nodes["a"], drawing.add_node(None, id="checked"), "by")
    drawing.remove_node(drawing.nodes["__end__"])
    text = drawing.draw_ascii()
    assert all(name in text for name in ("__start__", "checked", "by"))
    assert "__end__" not in text
