"""SVG pictures of graphs with a thread's position, for eyes and screen readers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any, TypedDict

import pytest

from hitl_django import END, START, StateGraph
from hitl_django.graph_registry.svg import draw_svg, get_picture

from .test_hostile import HIDDEN, MARK, TEXTS, assert_inert

SVG = "{http://www.w3.org/2000/svg}"


class State(TypedDict, total=False):
    x: int


def graph_of(*names: str, answer: str = "yes") -> Any:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, lambda state: {})
    graph.add_edge(START, names[0])
    graph.add_conditional_edges(names[0], lambda state: answer, {answer: names[-1], "no": END})
    return graph.compile()


def drawn(graph: Any, **told: Any) -> ElementTree.Element:
    return ElementTree.fromstring(draw_svg(get_picture(graph), **told))


def nodes_of(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    groups = [one for one in root.iter(f"{SVG}g") if "hitl-node" in one.get("class", "").split()]
    return {one.findtext(f"{SVG}title", ""): one for one in groups}


def _lines(path: str) -> str:
    strokes = [
        [tuple(map(float, point.split())) for point in stroke.split("L")]
        for stroke in path.split("M")[1:]
    ]
    return str([[(round(x - s[0][0]), round(y - s[0][1])) for x, y in s] for s in strokes])


def test_diagram_marks_visited_waiting_next_and_failed_nodes_by_distinct_class_icon_and_text() -> (
    None
):
    told = {"visited": ["a"], "paused": ["b"], "next": ["c"], "failed": ["d"]}

    nodes = nodes_of(drawn(graph_of("a", "b", "c", "d", "e"), **told))

    marks = set()
    for title, name in (
        ("a: visited", "visited"),
        ("b: waiting for review", "paused"),
        ("c: next", "next"),
        ("d: failed here", "failed"),
    ):
        assert f"hitl-{name}" in nodes[title].get("class", "").split()
        mark = nodes[title].find(f"{SVG}path[@class='hitl-mark']")
        assert mark is not None
        marks.add(_lines(mark.get("d", "")))
    assert "e" in nodes
    assert nodes["e"].find(f"{SVG}path[@class='hitl-mark']") is None
    assert len(marks) == 4


def test_diagram_node_that_is_visited_and_waiting_is_marked_waiting() -> None:
    nodes = nodes_of(drawn(graph_of("a", "b"), visited=["a", "b"], paused=["b"], next=["b"]))

    assert "b: waiting for review" in nodes


def test_diagram_has_accessible_title_and_description_of_node_states() -> None:
    root = drawn(graph_of("a", "b", "c"), title="Refunds", visited=["a"], paused=["b"], next=["c"])

    assert root.get("role") == "img"
    ids = root.get("aria-labelledby", "").split()
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    assert [title.get("id"), desc.get("id")] == ids
    assert title.text == "Refunds"
    assert desc.text == "Graph with 3 nodes. Visited: a. Waiting for review at: b. Next: c."


def test_diagram_description_names_at_most_thirty_visited_nodes() -> None:
    names = [f"n{number}" for number in range(40)]

    desc = drawn(graph_of(*names), visited=names).findtext(f"{SVG}desc", "")

    assert "n29 and 10 more." in desc
    assert "n30" not in desc


def test_diagrams_with_different_idents_have_different_element_ids() -> None:
    picture = get_picture(graph_of("a", "b"))

    assert "other-title" in draw_svg(picture, ident="other")
    assert "other-title" not in draw_svg(picture)


@pytest.mark.parametrize("text", TEXTS)
def test_diagram_escapes_hostile_node_names_and_labels(text: str) -> None:
    name = text.replace("|", "").replace(":", "")
    image = draw_svg(get_picture(graph_of("a", name, answer=text)), title=text, visited=[name])

    assert_inert(image)
    root = ElementTree.fromstring(image)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
        "svg", "title", "desc", "g", "path", "rect", "circle", "text", "tspan",
    }  # fmt: skip
    shown = "".join(root.itertext())
    assert MARK in shown
    assert not HIDDEN & set(shown)


def test_diagram_contains_no_styles_scripts_or_urls() -> None:
    image = draw_svg(get_picture(graph_of("a", "b")), visited=["a"], paused=["b"])

    assert "style" not in image
    assert "<script" not in image
    assert "url(" not in image


def test_diagram_omits_visited_nodes_missing_from_the_graph() -> None:
    root = drawn(graph_of("a", "b"), visited=["gone"], paused=["gone:too"])

    assert "gone" not in "".join(root.itertext())
