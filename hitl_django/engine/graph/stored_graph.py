"""Substitutes for unavailable graphs. A substitute is derived from a checkpoint.

With a substitute, the state of a thread can be read.
"""

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
    """The part of a graph's interface that is needed to read the state of a thread."""

    spec: GraphSpec

    @property
    def stream_keys(self) -> Any:
        """The names of the channels that make up the state, or the name of the only channel."""

    def subgraph_of(self, name: str) -> Any:
        """Return the subgraph called by a node, or None if no call can be detected."""


class StoredGraph:
    """A substitute for a subgraph, with nodes and channels derived from a checkpoint.

    The class is used if the call of the subgraph can't be detected and its graph object is
    therefore unknown. The subgraph's checkpoints contain the names of all channels. The names of
    channels that trigger nodes contain the node names.
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
        """Return None, because the subgraphs of this graph are unknown."""


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
    if channel == START:
        return START
    if channel.startswith(JOIN):
        return channel.rpartition(":")[2]
    return channel.removeprefix(BRANCH_TO) if channel.startswith(BRANCH_TO) else None


def _list_state_keys(channels: dict[str, BaseChannel]) -> Iterator[str]:
    for name in channels:
        if name not in RESERVED_KEYS and _started_node(name) is None:
            yield name
