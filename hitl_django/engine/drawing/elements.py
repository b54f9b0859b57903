"""Nodes and edges of a drawn graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

#: Separates the names of nested nodes in a node id.
BETWEEN = ":"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a drawing.

    ``within`` lists the enclosing nodes, whose names are part of the node's id.
    """

    id: str
    name: str
    metadata: Mapping[str, Any] | None = None
    within: tuple[str, ...] = ()

    @property
    def data(self) -> None:
        """The data of a node in langchain's drawings, which is always None."""

    def copy(self, *, id: str | None = None, name: str | None = None) -> DrawnNode:
        """Return the node with another id or name, as in langchain's drawings."""
        return replace(self, id=id or self.id, name=name or self.name)


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a drawing.

    ``data`` is the return value for which a conditional edge is followed.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False

    def copy(self, *, source: str | None = None, target: str | None = None) -> DrawnEdge:
        """Return the edge with another source or target, as in langchain's drawings."""
        return replace(self, source=source or self.source, target=target or self.target)
