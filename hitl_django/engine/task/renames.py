"""Renames of a graph's nodes and channels, and the names that a checkpoint of before has.

What is stored keeps the names that it was stored under. It is read under the new ones; the ids of
tasks, and of the questions that they ask, go on to be made of the names that they began with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..constants import BRANCH_TO, END, JOIN, NS_SEP, RESERVED_KEYS, START
from ..errors import GraphDefinitionError

#: The nodes that take the failures of others are named by them.
HANDLER_OF = "__error_handler__"


class Renames:
    """The new names of nodes and of channels by their old ones; a chain is given by its end."""

    __slots__ = ("channels", "nodes")

    def __init__(self, nodes: Mapping[str, str], channels: Mapping[str, str]) -> None:
        self.nodes, self.channels = dict(nodes), dict(channels)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.channels)

    @property
    def old_names(self) -> list[str]:
        """All old names, sorted."""
        return sorted({*self.nodes, *self.channels})

    def rename_node(self, name: str) -> str:
        """Return a node's name of today."""
        return self.nodes.get(name, name)

    def rename_nodes(self, names: str | Sequence[str] | None) -> str | Sequence[str] | None:
        """Return the names of nodes of today; None, and "*" for all, stand for themselves."""
        if names is None or isinstance(names, str):
            return names
        return [self.rename_node(name) for name in names]

    def rename_channel(self, name: str) -> str:
        """Return a channel's name of today, also where it is made of those of nodes."""
        return _substitute(name, self.nodes, self.channels)

    def rename_keys(self, value: object) -> object:
        """Return a state, or part of one, with the names of today; what is none as it is."""
        if type(value) is not dict or self.channels.keys().isdisjoint(value):
            return value
        return {self.channels.get(key, key): held for key, held in value.items()}

    def list_former_names(self, name: str) -> list[str]:
        """Return what a node was called before."""
        return [old for old, new in self.nodes.items() if new == name]


NO_RENAMES = Renames({}, {})


class FormerNames:
    """The names that the tasks of a checkpoint began with, by those of today."""

    __slots__ = ("channels", "nodes")

    def __init__(self, nodes: Mapping[str, str], channels: Mapping[str, str]) -> None:
        self.nodes, self.channels = nodes, channels

    def get_triggers(self, triggers: Sequence[str]) -> Sequence[str]:
        """Return what started a node, in the order that it had."""
        return sorted(_substitute(name, self.nodes, self.channels) for name in triggers)


def build_renames(
    given: Mapping[str, str], nodes: Collection[str], channels: Collection[str]
) -> Renames:
    """Return what ``given`` renames in a graph of these nodes and channels.

    Raises GraphDefinitionError, with all faults, where it doesn't fit the graph.
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
