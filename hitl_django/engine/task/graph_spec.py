"""The parts of a compiled graph that are needed to run its tasks and to apply their writes."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, or_

from ..channels import ATOMIC, MISSING, REPLACING, BaseChannel, EphemeralValue
from ..constants import BRANCH_TO
from ..state.messages import is_message_reducer
from ..state.schema import ManagedValue
from .nodes import Node
from .renames import NO_RENAMES, Renames


class GraphSpec:
    """The parts of a compiled graph that are needed to run its tasks and to apply their writes."""

    __slots__ = (
        "channels",
        "consumable",
        "defaults",
        "expiring",
        "finishing",
        "growing",
        "handled",
        "is_atomic",
        "managed",
        "messages",
        "mixed",
        "nodes",
        "plain",
        "renames",
        "replacing",
        "spent",
        "summing",
        "trigger_to_nodes",
        "undurable",
    )

    def __init__(
        self,
        nodes: Mapping[str, Node],
        channels: Mapping[str, BaseChannel],
        managed: Mapping[str, ManagedValue],
        renames: Renames = NO_RENAMES,
    ) -> None:
        self.nodes, self.channels, self.managed = nodes, channels, managed
        #: The former names of nodes and channels.
        self.renames = renames
        self.expiring = frozenset(name for name, c in channels.items() if c.expires)
        self.finishing = tuple(name for name, c in channels.items() if c.finishes)
        self.consumable = frozenset(name for name, c in channels.items() if c.consumable)
        #: Channels whose readable value equals the stored value, and all others.
        self.plain = frozenset(name for name, c in channels.items() if c.plain)
        self.mixed = frozenset(channels) - self.plain
        #: Channels whose fold returns the single write of a step unchanged.
        self.replacing = frozenset(
            name for name, c in channels.items() if type(c).fold in REPLACING
        )
        #: Whether writes can only fail in reducers, so that a failed step changes no channel.
        self.is_atomic = ATOMIC.issuperset(map(type, channels.values()))
        #: Channels that trigger one node and are empty after the node has run. Their entries are
        #: removed. Otherwise, checkpoints would grow with the number of nodes that ever ran.
        self.spent = frozenset(
            name
            for name, c in channels.items()
            if type(c) is EphemeralValue and name.startswith(BRANCH_TO)
        )
        self.messages = frozenset(
            name for name, c in channels.items() if is_message_reducer(getattr(c, "operator", None))
        )
        #: Channels whose reducer is ``operator.add``.
        self.summing = frozenset(
            name for name, c in channels.items() if getattr(c, "operator", None) is add
        )
        #: Channels of lists and dicts with a reducer that only adds items.
        self.growing = (
            self.messages
            | self.summing
            | frozenset(n for n, c in channels.items() if getattr(c, "operator", None) is or_)
        )
        self.undurable = frozenset(name for name, c in channels.items() if not c.durable)
        #: Whether any node has an error handler.
        self.handled = any(node.handler is not None for node in nodes.values())
        self.defaults = tuple(
            name for name, channel in channels.items() if channel.initial() is not MISSING
        )
        self.trigger_to_nodes: dict[str, list[str]] = {}
        for name, node in nodes.items():
            for trigger in node.triggers:
                self.trigger_to_nodes.setdefault(trigger, []).append(name)
