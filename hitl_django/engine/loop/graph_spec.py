"""What planning and applying work on: the parts of a compiled graph, and the state of its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..channels import MISSING, REPLACING, BaseChannel, EphemeralValue
from ..constants import BRANCH_TO
from ..savers.checkpoint import Checkpoint, Version
from ..state.messages import is_message_reducer
from ..state.schema import ManagedValue
from ..task.nodes import Node
from .checkpoint_upgrade import LAYOUT, upgraded


class State:
    """The state of one graph between two super-steps, as plain values.

    ``values`` holds what each channel holds (see channels.channel), ``versions`` when each was
    last changed, ``seen`` which versions each node has run on. ``clock`` is the newest version.
    The dicts inside ``seen`` are replaced, never changed, so a copy of the outer one is a
    snapshot.
    """

    __slots__ = ("clock", "live", "passed", "seen", "touched", "updated", "values", "versions")

    def __init__(
        self,
        values: dict[str, Any],
        versions: dict[str, Version],
        seen: dict[str, dict[str, Version]],
        updated: Iterable[str] | None = None,
        clock: Version | None = None,
    ) -> None:
        self.values, self.versions, self.seen = values, versions, seen
        self.clock = max(versions.values()) if clock is None and versions else clock
        self.updated: set[str] | None = None if updated is None else set(updated)
        #: Held channels that a step without a write changes.
        self.live: set[str] = set()
        #: Nodes that ``seen`` mentions only because they ran in the newest step.
        self.passed: Sequence[str] = ()
        #: Channels changed since the last checkpoint.
        self.touched: set[str] = set()

    def copy(self) -> State:
        """Returns a state that can be changed without changing this one."""
        twin = State.__new__(State)
        twin.values, twin.versions = self.values.copy(), self.versions.copy()
        twin.seen = self.seen.copy()
        twin.clock, twin.live, twin.touched = self.clock, set(self.live), set(self.touched)
        twin.passed = self.passed
        twin.updated = None if self.updated is None else set(self.updated)
        return twin


class Blueprint:
    """The parts of a compiled graph that planning and applying need, with what follows of them."""

    __slots__ = (
        "channels",
        "consumable",
        "defaults",
        "expiring",
        "finishing",
        "handled",
        "managed",
        "messages",
        "mixed",
        "nodes",
        "plain",
        "replacing",
        "spent",
        "trigger_to_nodes",
        "undurable",
    )

    def __init__(
        self,
        nodes: Mapping[str, Node],
        channels: Mapping[str, BaseChannel],
        managed: Mapping[str, ManagedValue],
    ) -> None:
        self.nodes, self.channels, self.managed = nodes, channels, managed
        self.expiring = frozenset(name for name, c in channels.items() if c.expires)
        self.finishing = tuple(name for name, c in channels.items() if c.finishes)
        self.consumable = frozenset(name for name, c in channels.items() if c.consumable)
        #: Channels of which what is held is read, and those of which something else is.
        self.plain = frozenset(name for name, c in channels.items() if c.plain)
        self.mixed = frozenset(channels) - self.plain
        #: Channels of which the one write of a step is what is held then.
        self.replacing = frozenset(
            name for name, c in channels.items() if type(c).fold in REPLACING
        )
        #: Channels that start one node and are empty again after it has run. Of such a one nothing
        #: is kept then, or every checkpoint would grow with the nodes that have ever run.
        self.spent = frozenset(
            name
            for name, c in channels.items()
            if type(c) is EphemeralValue and name.startswith(BRANCH_TO)
        )
        self.messages = frozenset(
            name for name, c in channels.items() if is_message_reducer(getattr(c, "operator", None))
        )
        self.undurable = frozenset(name for name, c in channels.items() if not c.durable)
        #: Whether the failures of any node go to an error handler.
        self.handled = any(node.handler is not None for node in nodes.values())
        self.defaults = tuple(
            name for name, channel in channels.items() if channel.initial() is not MISSING
        )
        self.trigger_to_nodes: dict[str, list[str]] = {}
        for name, node in nodes.items():
            for trigger in node.triggers:
                self.trigger_to_nodes.setdefault(trigger, []).append(name)

    def state_from(self, checkpoint: Checkpoint | None) -> State:
        """Returns the state that a checkpoint recorded, or the one before any input."""
        if checkpoint is None:
            state = State({}, {}, {})
        else:
            stored = checkpoint
            if checkpoint["v"] < LAYOUT:
                checkpoint = upgraded(checkpoint, self.nodes, self.channels)
            state = State(
                dict(checkpoint["channel_values"]),
                dict(checkpoint["channel_versions"]),
                dict(checkpoint["versions_seen"]),
                checkpoint.get("updated_channels"),
                checkpoint.get("clock"),
            )
            if checkpoint is not stored:
                # Values under their new names are in no store yet.
                state.touched = state.values.keys() - stored["channel_values"].keys()
            state.live = {name for name in state.values if name in self.expiring}
            state.passed = [
                name for name, read in state.seen.items() if self.spent.issuperset(read)
            ]
        for name in self.defaults:
            if name not in state.values:
                state.values[name] = self.channels[name].initial()
        return state

    def durable_values(self, state: State) -> dict[str, Any]:
        """Returns what a checkpoint keeps of the held values."""
        if not self.defaults and not self.undurable:
            return state.values.copy()
        return {
            name: value
            for name, value in state.values.items()
            if name in state.versions and name not in self.undurable
        }
