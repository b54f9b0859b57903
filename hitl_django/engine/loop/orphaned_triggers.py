"""Orphaned triggers: what a checkpoint holds to start nodes that the graph has no longer."""

from __future__ import annotations

from ..constants import BRANCH_TO, JOIN
from ..task.graph_spec import GraphSpec
from .channel_state import ChannelState


def find_orphaned_triggers(spec: GraphSpec, state: ChannelState) -> dict[str, str]:
    """Return what is held to start nodes that aren't in the graph any more, by channel.

    With each goes its node: one that is gone, or one that a join starts which is gone.
    """
    held: dict[str, str] = {}
    for name in state.values.keys() - spec.channels.keys():
        if name.startswith(BRANCH_TO):
            held[name] = name.removeprefix(BRANCH_TO)
        elif name.startswith(JOIN):
            starts, _, end = name.removeprefix(JOIN).rpartition(":")
            seen = state.values[name]
            if set(starts.split("+")) <= set(seen[0] if isinstance(seen, tuple) else seen):
                held[name] = end
    return held


def drop_orphaned_triggers(spec: GraphSpec, state: ChannelState) -> None:
    """Drop what was to start nodes that are gone, as a step drops what started none."""
    for name in find_orphaned_triggers(spec, state):
        del state.values[name]
        state.versions.pop(name, None)
