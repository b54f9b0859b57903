"""Random graphs as plain data, and their construction in each engine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from hypothesis import strategies as st
from typing_extensions import TypedDict

Engine = Any  # Namespace of public names: this package's or, in the comparison tests, LangGraph's.


def keep(old: list, new: list) -> list:
    return (new if new[: len(old)] == old else old + new)[-40:]


class State(TypedDict, total=False):
    log: Annotated[list, keep]
    total: Annotated[int, operator.add]


@dataclass(frozen=True)
class NodeSpec:
    """Specification of a node: it logs, interrupts ``interrupts`` times, and may call a graph or
    jump.
    """

    name: str
    interrupts: int = 0
    child: GraphSpec | None = None
    called: bool = False
    jumps: tuple[str, ...] = ()
    defer: bool = False


@dataclass(frozen=True)
class GraphSpec:
    """Specification of a graph as data, independent of the engine."""

    nodes: tuple[NodeSpec, ...]
    edges: tuple[tuple[str, str], ...]
    joins: tuple[tuple[tuple[str, ...], str], ...] = ()
    branches: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = ()
    sends: tuple[tuple[str, int], ...] = ()
    worker_asks: bool = False
    loops: int = 0


# Graphs from specifications.


def build(engine: Engine, spec: GraphSpec) -> Any:
    """Return the graph of a specification."""
    graph = engine.StateGraph(State)
    for node in spec.nodes:
        graph.add_node(node.name, action(engine, node), defer=node.defer, **targets(node))
    for one, other in spec.edges:
        graph.add_edge(engine.START if one == "" else one, other)
    for starts, end in spec.joins:
        graph.add_edge(list(starts), end)
    for source, choices in spec.branches:
        ends = sorted({name for choice in choices for name in choice})
        graph.add_conditional_edges(source, chooser(choices), ends)
    if spec.sends:
        graph.add_node("worker", worker(engine, spec.worker_asks))
    for source, count in spec.sends:
        graph.add_conditional_edges(source, sender(engine, source, count), ["worker"])
    if spec.loops:
        last, first = spec.nodes[-1].name, spec.nodes[0].name
        graph.add_conditional_edges(last, again(engine, first, spec.loops), [first, engine.END])
    return graph


def targets(node: NodeSpec) -> dict[str, Any]:
    return {"destinations": node.jumps} if node.jumps else {}


def action(engine: Engine, node: NodeSpec) -> Any:
    """Return the function of a node."""
    child = build(engine, node.child).compile() if node.child else None
    if child is not None and not node.called:
        return child

    def run(state: Any) -> Any:
        log = [node.name]
        for position in range(node.interrupts):
            log.append(engine.interrupt(f"{node.name}.{position} at {len(state['log'])}"))
        if child is not None:
            log += child.invoke({"log": [], "total": 0})["log"]
        update = {"log": log, "total": 1}
        if node.jumps:
            return engine.Command(update=update, goto=list(node.jumps))
        return update

    return run


def worker(engine: Engine, asks: bool) -> Any:

    def run(arg: Any) -> dict[str, Any]:
        return {"log": [engine.interrupt(f"worker {arg}") if asks else f"worker {arg}"]}

    return run


def chooser(choices: Sequence[tuple[str, ...]]) -> Callable[[Any], list[str]]:
    return lambda state: list(choices[len(state["log"]) % len(choices)])


def sender(engine: Engine, source: str, count: int) -> Callable[[Any], list[Any]]:

    def send(state: Any) -> list[Any]:
        return [engine.Send("worker", f"{source}{i} {len(state['log'])}") for i in range(count)]

    return send


def again(engine: Engine, first: str, times: int) -> Callable[[Any], str]:

    def loop(state: Any) -> str:
        return first if state["total"] < 6 * times else engine.END

    return loop


# Generation of specifications.


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2, prefix: str = "n") -> GraphSpec:
    """Generate a graph: a DAG with branches, joins, Sends, jumps and small subgraphs, and possibly
    a loop.
    """
    is_root = prefix == "n"
    count = draw(st.integers(1, 5 if is_root else 2))
    names = [f"{prefix}{position}" for position in range(count)]
    nodes, edges, joins, branches, sends = [], [], [], [], []
    for position, name in enumerate(names):
        earlier, later = names[:position], names[position + 1 :]
        nodes.append(draw(node_specs(name, later, depth)))
        if not earlier:
            edges.append(("", name))
            continue
        starts = draw(st.lists(st.sampled_from(["", *earlier]), max_size=2, unique=True))
        edges += [(start, name) for start in starts]
        if len(earlier) > 1 and draw(st.integers(0, 3)) == 0:
            joined = draw(st.lists(st.sampled_from(earlier), min_size=2, max_size=3, unique=True))
            joins.append((tuple(sorted(joined)), name))
    for position, name in enumerate(names[:-1]):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            later = st.lists(st.sampled_from(names[position + 1 :]), max_size=2, unique=True)
            chosen = draw(st.lists(later.map(tuple), min_size=1, max_size=3))
            branches.append((name, tuple(chosen)))
        elif kind == 1 and is_root:
            sends.append((name, draw(st.integers(0, 3))))
    return GraphSpec(
        tuple(nodes),
        tuple(edges),
        tuple(joins),
        tuple(branches),
        tuple(sends),
        draw(st.booleans()),
        draw(st.sampled_from([0, 0, 1, 2])) if is_root else 0,
    )


@st.composite
def node_specs(draw: st.DrawFn, name: str, later: list[str], depth: int) -> NodeSpec:
    """Generate the specification of a node."""
    kind = draw(st.integers(0, 9))
    if kind <= 2:
        return NodeSpec(name, interrupts=draw(st.integers(1, 2)))
    if kind == 3 and depth:
        child = draw(graphs(depth=depth - 1, prefix=f"{name}x"))
        called = draw(st.booleans())
        asked = draw(st.integers(0, 1)) if called else 0
        return NodeSpec(name, interrupts=asked, child=child, called=called)
    if kind == 4 and later:
        jumps = draw(st.lists(st.sampled_from(later), min_size=1, max_size=2, unique=True))
        return NodeSpec(name, jumps=tuple(jumps))
    if kind == 5:
        return NodeSpec(name, defer=True)
    return NodeSpec(name)
