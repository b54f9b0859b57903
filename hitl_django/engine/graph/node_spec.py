"""Nodes and conditional edges as a builder was given them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..channels import BaseChannel
from ..task.nodes import Action
from .policies import NodeDefaults, Policies


@dataclass(slots=True)
class NodeSpec:
    """A node as it was added."""

    action: Action
    input_schema: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    defer: bool = False
    #: Where its Commands may lead, and the label of each way.
    ends: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class BranchSpec:
    """A conditional edge as it was added."""

    path: Action
    ends: Mapping[Hashable, str] | None
    input_schema: Any = None


class GraphDefinition(Protocol):
    """What a builder was given of a graph; ``StateGraph`` is the one that there is."""

    nodes: dict[str, NodeSpec]
    edges: dict[tuple[str, str], None]
    waiting_edges: dict[tuple[tuple[str, ...], str], None]
    branches: dict[str, dict[str, BranchSpec]]
    channels: dict[str, BaseChannel]
    defaults: NodeDefaults
    state_schema: Any
    input_schema: Any

    def keys_of(self, schema: Any) -> tuple[str, ...]:
        """Return the keys of a schema, which is one of the graph's from then on."""
