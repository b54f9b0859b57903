"""Orphaned triggers: channel values that would trigger nodes or edges that no longer exist."""

from __future__ import annotations

from ..constants import BRANCH_TO, JOIN
from ..task.graph_spec import GraphSpec
from .channel_state import ChannelState


def find_orphaned_triggers(spec: GraphSpec, state: ChannelState) -> dict[str, str]:
    """Return the channels that would trigger removed nodes or edges, each with its target node."""
    orphaned: dict[str, str] = {}
    for name in state.values.keys() - spec.channels.keys():
        if name.startswith(BRANCH_TO):
            orphaned[name] = name.removeprefix(BRANCH_TO)
        elif name.startswith(JOIN):
            starts, _, end = name.removeprefix(JOIN).rpartition(":")
            stored = state.values[name]
            if set(starts.split("+")) <= set(stored[0] if isinstance(stored, tuple) else stored):
                orphaned[name] = end
    return orphaned


def drop_orphaned_triggers(spec: GraphSpec, state: ChannelState) -> None:
    """Remove the channel values that would trigger nodes or edges that no longer exist."""
    for name in find_orphaned_triggers(spec, state):
        del state.values[name]
        state.versions.pop(name, None)
