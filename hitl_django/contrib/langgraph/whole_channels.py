"""LangGraph's DeltaChannels with whole values in each checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from langgraph.channels import DeltaChannel
from langgraph.pregel import Pregel


class WholeChannel(DeltaChannel):
    """DeltaChannel that stores its whole value in each checkpoint.

    LangGraph stores occasional snapshots and computes the value from later writes. The engine's
    savers store only the items that were added to a list, so storing deltas would save no space.
    With whole values, a single checkpoint can be read, kept and forked.
    """

    __slots__ = ()

    def checkpoint(self) -> Any:
        return self.value


def store_channels_whole(graph: Pregel) -> Pregel:
    """Return a copy of the graph whose checkpoints contain whole values of DeltaChannels.

    Subgraphs are not copied but changed in place, because a function may refer to a subgraph and
    would not use the copy.
    """
    twin = copy.copy(graph)
    twin.channels = _replace_channels(graph.channels)
    _replace_below(graph, set())
    return twin


def _replace_below(graph: Pregel, known: set[int]) -> None:
    for node in graph.nodes.values():
        for called in node.subgraphs:
            if isinstance(called, Pregel) and id(called) not in known:
                known.add(id(called))
                called.channels = _replace_channels(called.channels)
                _replace_below(called, known)


def _replace_channels(channels: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _make_whole(channel) if type(channel) is DeltaChannel else channel
        for name, channel in channels.items()
    }


def _make_whole(channel: DeltaChannel) -> WholeChannel:
    # Store each value also as a snapshot. Otherwise LangGraph would store all writes of a run with
    # the last value if the durability is "exit".
    whole = WholeChannel(channel.reducer, channel.typ, snapshot_frequency=1)
    whole.key = channel.key
    return whole
