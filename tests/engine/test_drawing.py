"""Drawings of graphs: nodes and edges, Mermaid source, and positions."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest

from hitl_django import END, START, Command, StateGraph
from hitl_django.engine.channels import EphemeralValue, LastValue
from hitl_django.engine.drawing import Drawing, Picture, draw_mermaid, lay_out_graph
from hitl_django.engine.drawing.layout.ordering import count_crossings
from hitl_django.engine.drawing.layout.text_size import LONGEST, break_lines, measure_text
from hitl_django.engine.graph.node_builder import NodeBuilder
from hitl_django.engine.graph.pregel import Pregel


class State(TypedDict, total=False):
    x: int


def nothing(state: State) -> dict[str, Any]:
    return {}


def graph_of(nodes: str, *edges: tuple[str, str]) -> StateGraph:
    graph = StateGraph(State)
    for name in nodes.split():
        graph.add_node(name, nothing)
    for start, end in edges:
        graph.add_edge(start, end)
    return graph


def edges_of(graph: Any, **options: Any) -> set[tuple[Any, ...]]:
    drawing = graph.get_graph(**options)
    return {(e.source, e.target, e.data, e.conditional) for e in drawing.edges}


def inner() -> Any:
    return graph_of("one two", (START, "one"), ("one", "two")).compile()


# Nodes and edges.


def test_drawing_has_one_labelled_edge_per_path_of_conditional_edge() -> None:
    graph = graph_of("a b", (START, "a"))
    graph.add_conditional_edges("a", lambda state: "yes", {"yes": "b", "no": END, "b": "b"})

    assert {edge for edge in edges_of(graph.compile()) if edge[0] == "a"} == {
        ("a", "b", "yes", True),
        ("a", "b", None, True),
        ("a", END, "no", True),
    }


def test_drawing_has_edges_for_command_destinations_with_their_labels() -> None:
    def jumps(state: State) -> Command[Literal["a", "c"]]:
        return Command(goto="a")

    graph = graph_of("a c", (START, "a"), ("a", "b"))
    graph.add_node("b", jumps)
    graph.add_node("d", nothing, destinations={"a": "look again"})
    graph.add_edge("c", "d")

    assert {edge for edge in edges_of(graph.compile()) if edge[0] in "bd"} == {
        ("b", "a", None, True),
        ("b", "c", None, True),
        ("d", "a", "look again", True),
    }


def test_drawing_with_xray_expands_the_given_number_of_subgraph_levels() -> None:
    middle = graph_of("first", (START, "first"), ("first", "low")).add_node("low", inner())
    graph = graph_of("p", (START, "p"), ("p", "mid")).add_node("mid", middle.compile()).compile()

    assert set(graph.get_graph().nodes) == {START, "p", "mid", END}
    assert set(graph.get_graph(xray=1).nodes) == {START, "p", "mid:first", "mid:low", END}
    assert ("mid:first", "mid:low:one", None, False) in edges_of(graph, xray=True)
    assert ("mid:low:two", END, None, False) in edges_of(graph, xray=2)


def test_drawing_of_graph_calling_itself_contains_its_nodes_once() -> None:
    graph = graph_of("a", (START, "a"), ("a", "again"))
    graph.add_node("again", lambda state: compiled.invoke(state))
    compiled = graph.compile()

    assert set(compiled.get_graph(xray=True).nodes) == {START, "a", "again", END}
    assert len(lay_out_graph(compiled).nodes) == 4


def test_drawing_of_expanded_subgraph_with_two_first_nodes_includes_its_start_node() -> None:
    inside = graph_of("l r", (START, "l"), (START, "r")).compile()
    graph = graph_of("a", (START, "a"), ("a", "sub")).add_node("sub", inside).compile()

    edges = edges_of(graph, xray=True)

    assert ("a", "sub:__start__", None, False) in edges
    assert ("sub:__end__", END, None, False) in edges


def test_drawing_connects_pregel_nodes_by_the_channels_they_write_and_read() -> None:
    first = NodeBuilder().subscribe_only("a").do(lambda value: value).write_to("b")
    second = NodeBuilder().subscribe_only("b").do(lambda value: value).write_to("c")
    graph = Pregel(
        nodes={"first": first, "second": second},
        channels={"a": EphemeralValue(str), "b": EphemeralValue(str), "c": LastValue(str)},
        input_channels="a",
        output_channels="c",
    )

    assert edges_of(graph) == {
        (START, "first", None, False),
        ("first", "second", None, False),
        ("second", END, None, False),
    }


def test_drawing_node_metadata_includes_breakpoints_and_defer_flag() -> None:
    graph = graph_of("a", (START, "a"), ("a", "b"))
    graph.add_node("b", nothing, defer=True, metadata={"owner": "shop"})

    nodes = graph.compile(interrupt_before=["b"], interrupt_after="*").get_graph().nodes

    assert nodes["b"].metadata == {"owner": "shop", "defer": True, "__interrupt": "before,after"}
    assert nodes["a"].metadata == {"__interrupt": "after"}


def test_drawing_to_json_lists_nodes_and_conditional_edges() -> None:
    graph = graph_of("a", (START, "a"))
    graph.add_conditional_edges("a", lambda state: "no", {"no": END})

    told = graph.compile().get_graph().to_json()

    assert {"id": "a", "name": "a"} in told["nodes"]
    assert {"source": "a", "target": END, "data": "no", "conditional": True} in told["edges"]


# Mermaid.


def test_mermaid_text_of_graph_with_subgraph_contains_subgraph_block() -> None:
    graph = graph_of("a", (START, "a"), ("a", "sub")).add_node("sub", inner())
    graph.add_conditional_edges("sub", lambda state: 1, {1: "a", 2: END})

    text = draw_mermaid(graph.compile())

    assert text.splitlines()[:8] == [
        "flowchart TD",
        '  __start__(["__start__"]):::start',
        '  a["a"]',
        '  subgraph s1_["sub"]',
        '    n1_["one"]',
        '    n2_["two"]',
        "  end",
        '  __end__(["__end__"]):::end_',
    ]
    assert '  n2_ -.->|"1"| a' in text
    assert "  n1_ --> n2_" in text


@pytest.mark.parametrize(
    "name", ['"]; click a "javascript"', "<b>b</b>", "end", "a\nb", "x`$$y$$`", "%%{init}%%"]
)
def test_mermaid_text_escapes_special_characters_in_node_names(name: str) -> None:
    graph = StateGraph(State).add_node("a", nothing).add_node(name, nothing)
    graph.add_edge(START, "a").add_conditional_edges("a", lambda state: name, {name + "!": name})

    lines = draw_mermaid(graph.compile()).splitlines()

    # The title, four nodes, three edges and three styles. Names add no lines.
    assert len(lines) == 1 + 4 + 3 + 3
    texts = [line.split('"')[1::2] for line in lines]
    assert not any(set(text) & set("<>`$%;") - {";"} for line in texts for text in line)
    assert all(line.count('"') in (0, 2) for line in lines)
    assert not any(line.strip() == "end" or line.lstrip().startswith("end[") for line in lines)


def test_mermaid_text_without_styles_contains_no_class_definitions() -> None:
    graph = graph_of("a", (START, "a")).compile()

    text = graph.get_graph().draw_mermaid(with_styles=False)

    assert "classDef" not in text
    assert ":::" not in text


# The picture.


def random_graph(seed: int) -> StateGraph:
    chance = random.Random(seed)
    count = chance.randrange(1, 14)
    graph = graph_of(" ".join(f"node_{number}" for number in range(count)), (START, "node_0"))
    for _ in range(chance.randrange(3 * count)):
        start = f"node_{chance.randrange(count)}"
        end = chance.choice([END, f"node_{chance.randrange(count)}"])
        if chance.random() < 0.5:
            graph.add_edge(start, end)
        else:
            answers = {f"answer {chance.random():.3f}": end, "other": "node_0"}
            graph.add_conditional_edges(start, _path(), answers)
    return graph


def _path() -> Any:
    def path(state: State) -> str:
        return ""

    path.__name__ = f"path_{next(_numbers)}"
    return path


_numbers = itertools.count()


def assert_tidy(drawn: Picture) -> None:
    """Assert that no elements overlap or leave the picture, and that edges end at nodes."""
    places = {node.id: node for node in drawn.nodes}
    for node in drawn.nodes:
        assert 0 <= node.x <= drawn.width - node.width
        assert 0 <= node.y <= drawn.height - node.height
    for one, other in itertools.combinations(drawn.nodes, 2):
        if other.id.startswith(one.id + ":"):
            assert one.x < other.x < one.x + one.width - other.width
            assert one.y < other.y < one.y + one.height - other.height
            continue
        apart = (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
        assert apart, (one.id, other.id)
    for edge in drawn.edges:
        for (x, y), name in ((edge.points[0], edge.source), (edge.points[-1], edge.target)):
            node = places[name]
            assert node.x - 0.01 <= x <= node.x + node.width + 0.01, edge
            assert node.y - 0.01 <= y <= node.y + node.height + 0.01, edge
        assert all(0 <= x <= drawn.width and 0 <= y <= drawn.height for x, y in edge.points)


@pytest.mark.parametrize("seed", range(60))
def test_layout_of_random_graph_has_no_overlapping_nodes(seed: int) -> None:
    assert_tidy(lay_out_graph(random_graph(seed).compile()))


def test_layout_places_nodes_of_called_subgraph_inside_its_node() -> None:
    middle = graph_of("first", (START, "first"), ("first", "low")).add_node("low", inner())
    graph = graph_of("p q", (START, "p"), ("p", "mid"), ("mid", "q"), ("q", "p"))
    drawn = lay_out_graph(graph.add_node("mid", middle.compile()).compile())

    assert_tidy(drawn)
    assert {node.id for node in drawn.nodes if node.holds} == {"mid", "mid:low"}
    assert "mid:low:two" in {node.id for node in drawn.nodes}


def test_layout_computed_twice_for_the_same_graph_is_identical() -> None:
    assert lay_out_graph(random_graph(3).compile()) == lay_out_graph(random_graph(3).compile())


def test_layout_places_target_below_source_except_for_back_edges() -> None:
    graph = graph_of("a b c", (START, "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("b", "b"))
    drawn = lay_out_graph(graph.compile())
    tops = {node.id: node.y for node in drawn.nodes}

    back = {(edge.source, edge.target) for edge in drawn.edges if edge.back}

    assert back == {("c", "a"), ("b", "b")}
    assert tops[START] < tops["a"] < tops["b"] < tops["c"]


def test_layout_orders_nodes_so_that_avoidable_edges_do_not_cross() -> None:
    # Each of three nodes leads to one of three targets, which were added in reverse order.
    graph = graph_of(
        "a b c z y x",
        *((START, name) for name in "abc"),
        ("a", "x"),
        ("b", "y"),
        ("c", "z"),
    )
    drawn = lay_out_graph(graph.compile())
    middles = {node.id: node.x for node in drawn.nodes}

    assert sorted("abc", key=middles.__getitem__) == [
        {"x": "a", "y": "b", "z": "c"}[name] for name in sorted("xyz", key=middles.__getitem__)
    ]


def test_count_crossings_counts_each_crossing_pair_of_edges_once() -> None:
    assert count_crossings([[0, 1], [2, 3]], [[3], [2], [], []]) == 1
    assert count_crossings([[0, 1], [2, 3]], [[2, 3], [2, 3], [], []]) == 1
    assert count_crossings([[0, 1], [2, 3]], [[2], [2, 3], [], []]) == 0


def test_layout_places_labels_of_neighbouring_edges_without_overlap() -> None:
    graph = graph_of("a b c", (START, "a"))
    graph.add_conditional_edges("a", lambda state: 1, {"left of it": "b", "right of it": "c"})
    drawn = lay_out_graph(graph.compile())

    one, other = (edge for edge in drawn.edges if edge.label)
    apart = abs(one.label_at[0] - other.label_at[0])  # type: ignore[index]

    assert apart > (measure_text(one.shown) + measure_text(other.shown)) / 2
    assert all(node.y > one.label_at[1] for node in drawn.nodes if node.id in "bc")  # type: ignore[index]


def test_layout_merges_paths_to_the_same_node_into_one_edge_with_joined_labels() -> None:
    graph = graph_of("a b", (START, "a"))
    graph.add_conditional_edges("a", lambda state: 1, {"yes": "b", "surely": "b", "no": END})

    labels = {edge.label for edge in lay_out_graph(graph.compile()).edges}

    assert labels == {"", "yes / surely", "no"}


def test_layout_marks_edges_of_branch_without_path_map_as_guessed() -> None:
    graph = graph_of("a b c", (START, "a"), ("b", "c"))
    graph.add_conditional_edges("a", lambda state: "b")
    drawn = lay_out_graph(graph.compile())

    assert [(e.source, e.target) for e in drawn.edges if e.leads == "guessed"] == [("a", "b")]
    assert ("a", "b", None, True) not in edges_of(graph.compile())


def test_layout_draws_error_handler_edge_from_the_handled_node() -> None:
    graph = graph_of("", (START, "a")).add_node("a", nothing, error_handler=nothing)

    drawn = lay_out_graph(graph.compile())

    assert [e.source for e in drawn.edges if e.leads == "on_error"] == ["a"]


def test_layout_node_width_grows_with_its_name_up_to_320_pixels() -> None:
    names = ["short", "a_name_that_is_longer", "長い名前のノード" * 4, "word " * 60]
    graph = graph_of("", (START, names[0]))
    for name in names:
        graph.add_node(name, nothing)
    nodes = {node.name: node for node in lay_out_graph(graph.compile()).nodes}

    for name in names:
        assert nodes[name].width >= max(map(measure_text, nodes[name].lines))
    assert nodes[names[0]].width < nodes[names[1]].width
    assert len(nodes[names[2]].lines) > 1
    assert nodes[names[3]].lines[-1].endswith("…")
    assert max(node.width for node in nodes.values()) < 320


def test_break_lines_wraps_long_node_name_between_words() -> None:
    assert break_lines("check_the_customer_and_the_order_of_today") == (
        "check_the_customer_and_the_",
        "order_of_today",
    )
    assert break_lines("x" * LONGEST) == ("x" * LONGEST,)
    assert break_lines("") == ("",)


def test_layout_width_is_computed_from_translated_node_names() -> None:
    graph = graph_of("a", (START, "a")).compile()

    by_default, said = (
        lay_out_graph(graph),
        lay_out_graph(graph, say=lambda name: name.ljust(25, ".")),
    )

    assert said.width > by_default.width
    assert {node.name for node in said.nodes} == {node.name for node in by_default.nodes}


def test_layout_edges_of_thousand_node_graph_stay_within_drawing_width() -> None:
    graph = graph_of(" ".join(f"n{number}" for number in range(1000)), (START, "n0"))
    for number in range(999):
        ends = {"on": f"n{number + 1}", "stop": END, "over": f"n{(number * 7) % 1000}"}
        graph.add_conditional_edges(f"n{number}", lambda state: "on", ends)

    drawn = lay_out_graph(graph.compile())

    assert len(drawn.nodes) == 1002
    assert all(len(edge.points) >= 2 for edge in drawn.edges)
    # Edges around the outside have a lane, and the picture is large enough for it.
    assert all(x <= drawn.width for edge in drawn.edges for x, _ in edge.points)


def test_ascii_drawing_of_graph_with_conditional_edges_equals_recorded_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph = graph_of("ask act", (START, "ask"), ("act", "ask"))
    graph.add_conditional_edges("ask", lambda state: "go", {"go": "act", "stop": END})
    drawing = graph.compile().get_graph()
    expected = """\
    __start__
        *
        *
   +---------+
   |   ask   |
   +---------+
     .  * .
    .   *  .
   .    *   ..
  .     *     .
 go     *   stop
   .   *      .
   .   *       .
+---------+    .
|   act   |  __end__
+---------+
"""
    assert [line.rstrip() for line in drawing.draw_ascii().splitlines()] == expected.splitlines()
    drawing.print_ascii()
    assert capsys.readouterr().out == drawing.draw_ascii() + "\n"


def test_ascii_drawing_with_xray_draws_expanded_subgraph_as_box() -> None:
    graph = graph_of("before", (START, "before"), ("before", "sub"))
    text = graph.add_node("sub", inner()).compile().get_graph(xray=True).draw_ascii()
    assert text.index("|   before") < text.index("sub") < text.index("__end__")
    assert text.count("+---") == 2 * text.count("__start__") + 4


@pytest.mark.parametrize("draw", ["draw_png", "draw_mermaid_png"])
def test_draw_png_returns_png_and_writes_it_to_file(tmp_path: Path, draw: str) -> None:
    drawing = graph_of("a", (START, "a")).compile().get_graph()
    file = tmp_path / "graph.png"
    image = getattr(drawing, draw)(output_file_path=str(file))
    assert image.startswith(b"\x89PNG")
    assert file.read_bytes() == image
    assert getattr(drawing, draw)(background_color=None) != image


def test_draw_png_without_cairosvg_raises_import_error_with_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(ImportError, match=r"pip install 'hitl-django\[draw\]'"):
        graph_of("a", (START, "a")).compile().get_graph().draw_png()


def test_draw_ascii_of_empty_drawing_raises_value_error_naming_get_graph() -> None:
    with pytest.raises(ValueError, match="get_graph"):
        Drawing().draw_ascii()
