"""Nodes and edges of a drawn graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Separates the names of nested nodes in a node id.
BETWEEN = ":"


class DrawnNode(NamedTuple):
    """A node of a drawing.

    ``data`` is the object that was passed to ``Drawing.add_node``. It's None for nodes that come
    from the graph.
    """

    id: str
    name: str
    data: Any = None
    metadata: Mapping[str, Any] | None = None

    @property
    def within(self) -> tuple[str, ...]:
        """The names of the nodes in which this node is nested, outermost first."""
        return tuple(self.id.split(BETWEEN)[:-1])

    def copy(self, *, id: str | None = None, name: str | None = None) -> DrawnNode:
        """Return a copy of the node with another id or name."""
        return self._replace(id=id or self.id, name=name or self.name)


class DrawnEdge(NamedTuple):
    """An edge of a drawing.

    ``data`` is the return value for which a conditional edge is followed, or None.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False

    def copy(self, *, source: str | None = None, target: str | None = None) -> DrawnEdge:
        """Return a copy of the edge with another source or target."""
        return self._replace(source=source or self.source, target=target or self.target)
