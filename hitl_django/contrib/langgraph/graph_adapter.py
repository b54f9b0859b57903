"""LangGraph's graphs converted to the engine's classes, for drawing and comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langgraph.channels.base import BaseChannel as ForeignChannel
from langgraph.constants import TAG_HIDDEN
from langgraph.pregel import Pregel as ForeignPregel

from hitl_django.engine.channels import (
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from hitl_django.engine.task.nodes import Action, Branch, Node
from hitl_django.engine.task.state_writer import StateWriter

_BUILDERS: dict[str, Callable[[Any, str], BaseChannel]] = {
    "AnyValue": lambda one, key: AnyValue(one.typ, key=key),
    "BinaryOperatorAggregate": lambda one, key: BinaryOperatorAggregate(
        one.typ, one.operator, key=key
    ),
    "DeltaChannel": lambda one, key: DeltaChannel(one.reducer, one.typ, key=key),
    "EphemeralValue": lambda one, key: EphemeralValue(one.typ, one.guard, key=key),
    "LastValueAfterFinish": lambda one, key: LastValueAfterFinish(one.typ, key=key),
    "NamedBarrierValue": lambda one, key: NamedBarrierValue(one.typ, one.names, key=key),
    "NamedBarrierValueAfterFinish": lambda one, key: NamedBarrierValueAfterFinish(
        one.typ, one.names, key=key
    ),
    "Topic": lambda one, key: Topic(one.typ, one.accumulate, key=key),
    "UntrackedValue": lambda one, key: UntrackedValue(one.typ, one.guard, key=key),
    "WholeChannel": lambda one, key: DeltaChannel(one.reducer, one.typ, key=key),
}


def convert_channels(graph: ForeignPregel) -> dict[str, BaseChannel]:
    """Convert the channels of a LangGraph graph to channels of the engine.

    If the engine has no matching channel class, the channel becomes a LastValue.
    """
    return {
        name: _convert_channel(name, channel)
        for name, channel in graph.channels.items()
        if isinstance(channel, ForeignChannel)
    }


def _convert_channel(name: str, channel: ForeignChannel[Any, Any, Any]) -> BaseChannel:
    build = _BUILDERS.get(type(channel).__name__)
    return LastValue(channel.typ, key=name) if build is None else build(channel, name)


def convert_nodes(graph: ForeignPregel) -> dict[str, Node]:
    """Convert the nodes of a LangGraph graph to nodes of the engine, with triggers and targets.

    The converted nodes can't be run.
    """
    always: dict[str, list[str]] = {}
    maybe: dict[str, dict[Any, str]] = {}
    for edge in graph.get_graph().edges:
        if edge.conditional:
            label = edge.target if edge.data is None else edge.data
            maybe.setdefault(edge.source, {})[label] = edge.target
        else:
            always.setdefault(edge.source, []).append(edge.target)
    return {
        name: Node(
            action=None,
            triggers=tuple(node.triggers),
            keys=(),
            writers=(_build_writer(graph, name, always.get(name, ())),),
            branches=(Branch(_UNKNOWN, maybe[name]),) if name in maybe else (),
            tags=tuple(node.tags or ()),
            metadata=dict(node.metadata or {}),
            hidden=TAG_HIDDEN in (node.tags or ()),
        )
        for name, node in graph.nodes.items()
    }


#: Path of a conditional edge of which only the targets are known.
_UNKNOWN = Action(lambda state: ())


def _build_writer(graph: ForeignPregel, name: str, targets: Any) -> StateWriter:
    triggers = [graph.nodes[target].triggers for target in targets if target in graph.nodes]
    return StateWriter(frozenset(), [(found[0], None) for found in triggers if found], name)


def find_called_graph(graph: ForeignPregel, name: str) -> ForeignPregel | None:
    """Return the subgraph that a node calls, or None if LangGraph detects no subgraph."""
    for called in graph.nodes[name].subgraphs:
        if isinstance(called, ForeignPregel):
            return called
    return None


def needs_event_loop(graph: ForeignPregel) -> bool:
    """Return whether a node or a tool of a graph has only an async function."""
    return any(
        _is_async_only(node.bound)
        or any(isinstance(one, ForeignPregel) and needs_event_loop(one) for one in node.subgraphs)
        for node in graph.nodes.values()
    )


def _is_async_only(called: Any) -> bool:
    tools = getattr(called, "tools_by_name", None)
    if isinstance(tools, dict):
        return any(_is_async_only(tool) for tool in tools.values())
    awaited = getattr(called, "afunc", None) or getattr(called, "coroutine", None)
    return awaited is not None and getattr(called, "func", None) is None


def list_functions(graph: ForeignPregel) -> Iterator[Callable[..., Any]]:
    """Yield the sync and async functions of a graph's nodes."""
    for node in graph.nodes.values():
        for name in ("func", "afunc"):
            function = getattr(node.bound, name, None)
            if callable(function):
                yield function
