"""The position of a thread in its graph, for pictures of the graph.

Reading the position takes a fixed number of queries. None of them reads values of the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hitl_django.checkpoints import thread_position as stored_position
from hitl_django.checkpoints.thread_position import ThreadHead
from hitl_django.db.alias import write_alias
from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.subgraphs import split_path
from hitl_django.errors import UnknownGraphError
from hitl_django.graph_registry import svg
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.models import Interrupt, Run, Thread

from .state import find_graph_of_thread, find_thread

#: Maximum number of interrupts per thread.
INTERRUPTS = 100
_STUCK = (Run.State.FAILED, Run.State.PARKED)
_TO_COME = (Run.State.QUEUED, Run.State.RUNNING, *_STUCK)


@dataclass(frozen=True, slots=True)
class ThreadPosition:
    """The position of a thread in its graph, with nodes given by their ids in the picture.

    The id of a node in a subgraph is ``outer:inner``.
    """

    graph: str
    visited: frozenset[str] = field(default_factory=frozenset)
    paused: frozenset[str] = field(default_factory=frozenset)
    failed: frozenset[str] = field(default_factory=frozenset)
    next: frozenset[str] = field(default_factory=frozenset)


def thread_position(thread_id: str, *, by: Any = None) -> ThreadPosition:
    """Return the position of a thread.

    Raises:
        ThreadNotFound: if the user may not see the thread.
    """
    thread = find_thread(thread_id, by)
    try:
        registered = find_graph_of_thread(thread)
    except UnknownGraphError:
        return ThreadPosition(thread.graph)
    return _build_position(thread, registered)


def thread_picture(thread_id: str, *, by: Any = None, ident: str = "hitl-graph") -> str:
    """Return the picture of a thread's graph as SVG, with the position of the thread.

    The ids of the SVG elements begin with ``ident``. The result is an empty string if the graph
    isn't registered.
    """
    return read_picture(thread_id, by=by, ident=ident)[0]


def read_picture(
    thread_id: str, *, by: Any = None, ident: str = "hitl-graph"
) -> tuple[str, ThreadPosition]:
    """Return the picture of a thread's graph as SVG, and the position of the thread.

    The ids of the SVG elements begin with ``ident``. The picture is an empty string if the graph
    isn't registered.
    """
    return draw_position(find_thread(thread_id, by), ident=ident)


def draw_position(thread: Thread, *, ident: str = "hitl-graph") -> tuple[str, ThreadPosition]:
    """Return the same as ``read_picture`` for a thread that the user may see."""
    try:
        registered = find_graph_of_thread(thread)
    except UnknownGraphError:
        return "", ThreadPosition(thread.graph)
    where = _build_position(thread, registered)
    picture = svg.draw_svg(
        svg.get_picture(registered.graph),
        title=str(registered.title),
        visited=where.visited,
        paused=where.paused,
        failed=where.failed,
        next=where.next,
        ident=ident,
    )
    return picture, where


def _build_position(thread: Thread, registered: RegisteredGraph) -> ThreadPosition:
    using = write_alias()
    run = Run.select_newest(Run.objects.using(using).filter(thread=thread)).first()
    head = stored_position.read_head(using, thread.pk)
    if run is None or head is None:
        return ThreadPosition(thread.graph)
    visited, failed, paused, due = (
        _read_visited(using, thread.pk, head, registered),
        set(),
        set(),
        set(),
    )
    if run.state == Run.State.INTERRUPTED:
        paused = _read_paused(using, run, registered)
        due = _list_successors(registered, paused)
    elif run.state == Run.State.SUCCEEDED:
        visited.add(END)
    elif run.state in _TO_COME:
        failed = _read_failed(using, thread.pk, head, registered) if run.state in _STUCK else set()
        due = _read_due(using, thread.pk, head, registered)
    containers = {outer for one in visited | paused for outer in _list_containers(one)}
    return ThreadPosition(
        thread.graph,
        frozenset(visited | containers),
        frozenset(paused | {outer for one in paused for outer in _list_containers(one)}),
        frozenset(failed),
        frozenset(due - paused - failed),
    )


def _read_visited(
    using: str, thread: int, head: ThreadHead, registered: RegisteredGraph
) -> set[str]:
    """Return the nodes of the picture that have run."""
    drawn = svg.get_picture(registered.graph).nodes
    found = stored_position.read_finished_nodes(using, thread, head)
    if any(node.holds for node in drawn):
        below = stored_position.read_finished_in_subgraphs(using, thread, head)
        found |= {_build_id(ns, name) for ns, name in below}
    return {_rename(ident, registered) for ident in found} & {node.id for node in drawn}


def _read_paused(using: str, run: Run, registered: RegisteredGraph) -> set[str]:
    pending = Interrupt.objects.using(using).filter(run=run, status=Interrupt.Status.PENDING)
    nodes = pending.order_by().values_list("checkpoint_ns", "node")[:INTERRUPTS]
    return {_rename(_build_id(ns, node), registered) for ns, node in nodes}


def _read_failed(
    using: str, thread: int, head: ThreadHead, registered: RegisteredGraph
) -> set[str]:
    names = *registered.graph.nodes, *registered.renames.nodes
    found = stored_position.read_failed_nodes(using, thread, head, names)
    return {_rename(name, registered) for name in found}


def _read_due(using: str, thread: int, head: ThreadHead, registered: RegisteredGraph) -> set[str]:
    """Return the nodes that run next, determined from channel versions without reading values."""
    nodes = registered.graph.nodes
    moved: dict[str, list[str]] = {}
    for name, node in nodes.items():
        seen = head.seen.get(name, {})
        for trigger in node.triggers:
            version = head.versions.get(trigger)
            if version is not None and (trigger not in seen or version > seen[trigger]):
                moved.setdefault(trigger, []).append(name)
    filled = stored_position.read_stored_channels(using, thread, head, moved)
    due = {name for trigger in filled for name in moved[trigger]}
    if START not in due:
        return due
    # In the engine, START is a node that passes the input on. In the picture, START has no position
    # of its own, so its successors are returned.
    return due - {START} | _list_successors(registered, [START])


def _list_successors(registered: RegisteredGraph, paused: Iterable[str]) -> set[str]:
    edges = svg.get_picture(registered.graph).edges
    return {
        edge.target for edge in edges if edge.source in paused and edge.leads in ("always", "maybe")
    }


def _build_id(ns: str, name: str) -> str:
    return ":".join((*split_path(ns), name))


def _rename(ident: str, registered: RegisteredGraph) -> str:
    """Convert a stored node id to the id of the node in the picture.

    The picture contains the current names of nodes. Only the part before the first ":" can be the
    former name of a renamed node.
    """
    node, separator, below = ident.partition(":")
    return f"{registered.renames.rename_node(node)}{separator}{below}"


def _list_containers(ident: str) -> list[str]:
    """Return the ids of the nodes whose subgraph contains this node."""
    parts = ident.split(":")
    return [":".join(parts[:length]) for length in range(1, len(parts))]
