"""DeltaChannels of LangGraph's graphs, stored whole."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from langgraph.channels import DeltaChannel
from langgraph.pregel import Pregel


class WholeChannel(DeltaChannel):
    """A DeltaChannel that each checkpoint has the value of.

    LangGraph stores the value of a DeltaChannel now and then, and makes it of earlier checkpoints
    and their writes. A saver here stores by itself only what was added to a list, so nothing is
    won by that, and a checkpoint alone can be read, kept and forked.
    """

    __slots__ = ()

    def checkpoint(self) -> Any:
        """Return the value, as other channels do."""
        return self.value


def store_channels_whole(graph: Pregel) -> Pregel:
    """Return the graph with whole channels.

    The graphs that its nodes call are changed in place: LangGraph finds them in functions as well,
    where another graph can't be put.
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
    # A snapshot of each value, too: with the durability "exit", LangGraph would otherwise store
    # all writes of a run beside its last value.
    whole = WholeChannel(channel.reducer, channel.typ, snapshot_frequency=1)
    whole.key = channel.key
    return whole
