"""A graph of which no more is known than a checkpoint: enough to read its state by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..channels import BaseChannel, EphemeralValue, LastValue, NamedBarrierValue, Topic
from ..constants import BRANCH_TO, JOIN, RESERVED_KEYS, ROOT, START, TASKS
from ..savers.checkpoint import Checkpoint
from ..task.graph_spec import GraphSpec
from ..task.nodes import Node
from ..types import Send


class ReadableGraph(Protocol):
    """What reading the state of a thread needs of its graph."""

    spec: GraphSpec

    @property
    def stream_keys(self) -> Any:
        """The channels that make the state, or the one that is the state."""

    def subgraph_of(self, name: str) -> Any:
        """Return the graph that the node calls, as far as that can be seen."""


class StoredGraph:
    """The form of a graph as its checkpoint's channels have it.

    A node may reach a graph in ways that nobody can see without running it. What such a graph has
    stored names its channels, and those that start nodes name the nodes.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        channels = {name: _build_channel(name) for name in checkpoint["channel_versions"]}
        triggers: dict[str, list[str]] = {}
        for name in channels:
            if (node := _started_node(name)) is not None:
                triggers.setdefault(node, []).append(name)
        for sent in checkpoint["channel_values"].get(TASKS) or ():
            triggers.setdefault(sent.node, [])
        nodes = {
            name: Node(action=None, triggers=tuple(starts), keys=())
            for name, starts in triggers.items()
        }
        self.spec = GraphSpec(nodes, channels, {})
        self.stream_keys: Any = ROOT if ROOT in channels else tuple(_list_state_keys(channels))

    def subgraph_of(self, name: str) -> None:
        """Nothing is known of what its nodes call."""


def _build_channel(name: str) -> BaseChannel:
    if name == TASKS:
        return Topic(Send, key=name)
    if name.startswith(JOIN):
        starts, _, _ = name.removeprefix(JOIN).rpartition(":")
        return NamedBarrierValue(str, set(starts.split("+")), key=name)
    if name == START or name.startswith(BRANCH_TO):
        return EphemeralValue(Any, guard=False, key=name)
    return LastValue(Any, key=name)


def _started_node(channel: str) -> str | None:
    """Return the node that a channel starts."""
    if channel == START:
        return START
    if channel.startswith(JOIN):
        return channel.rpartition(":")[2]
    return channel.removeprefix(BRANCH_TO) if channel.startswith(BRANCH_TO) else None


def _list_state_keys(channels: dict[str, BaseChannel]) -> Iterator[str]:
    for name in channels:
        if name not in RESERVED_KEYS and _started_node(name) is None:
            yield name
