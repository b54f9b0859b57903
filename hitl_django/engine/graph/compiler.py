"""Compilation of a graph definition into nodes and channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..channels import (
    BaseChannel,
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from ..constants import BRANCH_TO, END, JOIN, ROOT, START, TAG_HIDDEN, TASKS
from ..state.schema import get_coercion
from ..task.nodes import Branch, Node, Write, is_graph
from ..task.state_writer import StateWriter
from ..types import Send
from .node_spec import GraphDefinition, NodeSpec
from .policies import apply_defaults


def find_faults(graph: GraphDefinition, interrupt: Sequence[str]) -> Iterator[str]:
    """Yield a message for each fault of a graph definition that prevents its compilation."""
    known = {*graph.nodes, START}
    starts = {start for start, _ in graph.edges} | set(graph.branches)
    starts.update(start for several, _ in graph.waiting_edges for start in several)
    for start in sorted(starts):
        if start not in known:
            yield f"Found edge starting at unknown node '{start}'"
    if START not in starts:
        yield ("Graph must have an entrypoint: add at least one edge from START to another node")
    ends = {end for _, end in graph.edges} | {end for _, end in graph.waiting_edges}
    for end in sorted(ends):
        if end not in graph.nodes and end != END:
            yield f"Found edge ending at unknown node `{end}`"
    for source, branches in graph.branches.items():
        for name, branch in branches.items():
            for target in (branch.ends or {}).values():
                if target not in graph.nodes and target != END:
                    yield (f"At '{source}' node, '{name}' branch found unknown target '{target}'")
    for source, spec in graph.nodes.items():
        for target in spec.ends:
            if target not in graph.nodes and target != END:
                yield f"At '{source}' node, its Command names unknown target '{target}'"
    for name in interrupt:
        if name not in graph.nodes:
            yield f"Interrupt node `{name}` not found"


def build_nodes(
    graph: GraphDefinition, specs: Mapping[str, NodeSpec]
) -> tuple[dict[str, Node], dict[str, BaseChannel]]:
    """Return the nodes and channels of a valid graph definition."""
    channels: dict[str, BaseChannel] = dict(graph.channels)
    channels[START] = EphemeralValue(graph.input_schema, key=START)
    channels[TASKS] = Topic(Send, key=TASKS)
    ends, keys = _list_edge_writes(graph), frozenset(graph.channels)
    nodes = {START: _make_start_node(graph, ends.get(START, []))}
    for name, spec in specs.items():
        writer = StateWriter(keys, ends.get(name, []), name, drops=is_graph(spec.action.source))
        nodes[name] = _make_node(graph, name, spec, channels, writer)
    _attach_joins(graph, nodes, channels)
    return nodes, channels


def _make_start_node(graph: GraphDefinition, static: list[Write]) -> Node:
    keys = frozenset(key for key in graph.keys_of(graph.input_schema) if key in graph.channels)
    return Node(
        action=None,
        triggers=(START,),
        keys=START,
        writers=(StateWriter(keys, static, START),),
        branches=_make_branches(graph, START, graph.input_schema),
        tags=(TAG_HIDDEN,),
        hidden=True,
    )


def _make_node(
    graph: GraphDefinition,
    name: str,
    spec: NodeSpec,
    channels: dict[str, BaseChannel],
    writer: StateWriter,
) -> Node:
    trigger = BRANCH_TO + name
    channels[trigger] = (
        LastValueAfterFinish(Any, trigger)
        if spec.defer
        else EphemeralValue(Any, guard=False, key=trigger)
    )
    keys = graph.keys_of(spec.input_schema)
    policies = apply_defaults(name, spec.action, spec.policies, graph.defaults)
    return Node(
        action=spec.action,
        triggers=(trigger,),
        keys=ROOT if keys == (ROOT,) else keys,
        coercion=get_coercion(spec.input_schema),
        writers=(writer,),
        branches=_make_branches(graph, name, spec.input_schema),
        retry=policies.retry,
        timeout=policies.timeout,
        cache=policies.cache,
        handler=policies.handler,
        metadata=spec.metadata,
    )


def _list_edge_writes(graph: GraphDefinition) -> dict[str, list[Write]]:
    ends: dict[str, list[Write]] = {}
    for start, end in graph.edges:
        if end != END:
            ends.setdefault(start, []).append((BRANCH_TO + end, None))
    return ends


def _make_branches(graph: GraphDefinition, start: str, schema: Any) -> tuple[Branch, ...]:
    made = []
    for spec in graph.branches.get(start, {}).values():
        seen = spec.input_schema or (graph.state_schema if start == START else schema)
        keys = tuple(key for key in graph.keys_of(seen) if key in graph.channels)
        made.append(
            Branch(
                spec.path,
                spec.ends,
                ROOT if keys == (ROOT,) else keys,
                get_coercion(seen),
                passes_output=spec.input_schema is None,
            )
        )
    return tuple(made)


def _attach_joins(
    graph: GraphDefinition, nodes: dict[str, Node], channels: dict[str, BaseChannel]
) -> None:
    for starts, end in graph.waiting_edges:
        if end == END:
            continue
        name = f"{JOIN}{'+'.join(starts)}:{end}"
        kind = NamedBarrierValueAfterFinish if graph.nodes[end].defer else NamedBarrierValue
        channels[name] = kind(str, set(starts), name)
        nodes[end].triggers += (name,)
        nodes[end].sorted_triggers = tuple(sorted(nodes[end].triggers))
        for start in starts:
            for writer in nodes[start].writers:
                assert isinstance(writer, StateWriter)
                writer.static.append((name, start))
