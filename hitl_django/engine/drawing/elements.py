"""Nodes and edges of a drawn graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

#: Between the names of the nodes that lead to one inside another.
BETWEEN = ":"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node; one inside others is ``within`` those, and its id begins with their names."""

    id: str
    name: str
    metadata: Mapping[str, Any] | None = None
    within: tuple[str, ...] = ()

    @property
    def data(self) -> None:
        """What langchain's drawings have of a node beside its name: nothing here."""

    def copy(self, *, id: str | None = None, name: str | None = None) -> DrawnNode:
        """Return the node under another id or name, as langchain's drawings have it."""
        return replace(self, id=id or self.id, name=name or self.name)


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge; ``data`` is the answer of a conditional edge that leads this way."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False

    def copy(self, *, source: str | None = None, target: str | None = None) -> DrawnEdge:
        """Return the edge between other nodes, as langchain's drawings have it."""
        return replace(self, source=source or self.source, target=target or self.target)
