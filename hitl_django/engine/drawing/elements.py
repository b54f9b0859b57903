"""Nodes and edges of a drawn graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge; ``data`` is the answer of a conditional edge that leads this way."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False
