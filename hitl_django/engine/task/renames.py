"""Renames of nodes and channels, and their former names in stored checkpoints.

A checkpoint contains the names from the time when it was stored. The names are translated when the
checkpoint is read. Ids of tasks and interrupts are still computed from the original names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..constants import BRANCH_TO, END, JOIN, NS_SEP, RESERVED_KEYS, START
from ..errors import GraphDefinitionError

#: Prefix of error handler nodes, followed by the name of the node.
HANDLER_OF = "__error_handler__"


class Renames:
    """The current names of nodes and channels, by former name. Chains of renames are resolved."""

    __slots__ = ("channels", "nodes")

    def __init__(self, nodes: Mapping[str, str], channels: Mapping[str, str]) -> None:
        self.nodes, self.channels = dict(nodes), dict(channels)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.channels)

    @property
    def old_names(self) -> list[str]:
        """All former names, sorted."""
        return sorted({*self.nodes, *self.channels})

    def rename_node(self, name: str) -> str:
        """Return the current name of a node."""
        return self.nodes.get(name, name)

    def rename_nodes(self, names: str | Sequence[str] | None) -> str | Sequence[str] | None:
        """Return the current names of nodes. None and ``"*"`` are returned unchanged."""
        if names is None or isinstance(names, str):
            return names
        return [self.rename_node(name) for name in names]

    def rename_channel(self, name: str) -> str:
        """Return the current name of a channel.

        A channel named after a node is renamed with the node.
        """
        return _substitute(name, self.nodes, self.channels)

    def rename_keys(self, value: object) -> object:
        """Return a state dict with the current names of its keys.

        A value of another type than dict is returned unchanged.
        """
        if type(value) is not dict or self.channels.keys().isdisjoint(value):
            return value
        return {self.channels.get(key, key): item for key, item in value.items()}

    def list_former_names(self, name: str) -> list[str]:
        """Return the former names of a node."""
        return [old for old, new in self.nodes.items() if new == name]


NO_RENAMES = Renames({}, {})


class FormerNames:
    """The names of nodes and channels in a checkpoint, by current name."""

    __slots__ = ("channels", "nodes")

    def __init__(self, nodes: Mapping[str, str], channels: Mapping[str, str]) -> None:
        self.nodes, self.channels = nodes, channels

    def get_triggers(self, triggers: Sequence[str]) -> Sequence[str]:
        """Return the names that a node's triggers have in the checkpoint, sorted."""
        return sorted(_substitute(name, self.nodes, self.channels) for name in triggers)


def build_renames(
    given: Mapping[str, str], nodes: Collection[str], channels: Collection[str]
) -> Renames:
    """Return the renames for a graph with the given nodes and channels.

    Raises:
        GraphDefinitionError: the renames don't fit the graph. The message lists all faults.
    """
    faults: list[str] = []
    of_nodes: dict[str, str] = {}
    of_channels: dict[str, str] = {}
    for old, first in given.items():
        new, passed = first, [old]
        while new in given and new not in passed:
            passed.append(new)
            new = given[new]
        if new in passed:
            circle = " -> ".join(map(repr, [*passed, new]))
            faults.append(f"renamed contains a cycle: {circle}.")
            continue
        if old in nodes or old in channels:
            faults.append(f"renamed lists {old!r} as an old name, but the graph still has it.")
        for name in (old, new):
            if name in RESERVED_KEYS or name in (START, END) or not name or NS_SEP in name:
                faults.append(f"renamed contains {name!r}, which is not a node or channel name.")
        if new not in nodes and new not in channels:
            faults.append(f"renamed lists {new!r} as a new name, but the graph doesn't have it.")
        if new in nodes:
            of_nodes[old] = new
            if HANDLER_OF + new in nodes:
                of_nodes[HANDLER_OF + old] = HANDLER_OF + new
        if new in channels:
            of_channels[old] = new
    if faults:
        raise GraphDefinitionError("\n".join(dict.fromkeys(faults)))
    return Renames(of_nodes, of_channels)


def _substitute(name: str, nodes: Mapping[str, str], channels: Mapping[str, str]) -> str:
    if name in channels:
        return channels[name]
    if name.startswith(BRANCH_TO):
        node = name.removeprefix(BRANCH_TO)
        return BRANCH_TO + nodes.get(node, node)
    if name.startswith(JOIN):
        starts, _, end = name.removeprefix(JOIN).rpartition(":")
        places = "+".join(nodes.get(start, start) for start in starts.split("+"))
        return f"{JOIN}{places}:{nodes.get(end, end)}"
    return name
