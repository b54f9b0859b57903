"""Definitions of nodes and conditional edges that are passed to a graph builder."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..channels import BaseChannel
from ..task.nodes import Action
from .policies import NodeDefaults, Policies


@dataclass(slots=True)
class NodeSpec:
    action: Action
    input_schema: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    defer: bool = False
    #: Possible targets of the node's Commands, with the label of each edge.
    ends: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class BranchSpec:
    path: Action
    ends: Mapping[Hashable, str] | None
    input_schema: Any = None


class GraphDefinition(Protocol):
    """The protocol of a graph's definition before compilation, as ``StateGraph`` implements it."""

    nodes: dict[str, NodeSpec]
    edges: dict[tuple[str, str], None]
    waiting_edges: dict[tuple[tuple[str, ...], str], None]
    branches: dict[str, dict[str, BranchSpec]]
    channels: dict[str, BaseChannel]
    defaults: NodeDefaults
    state_schema: Any
    input_schema: Any

    def keys_of(self, schema: Any) -> tuple[str, ...]:
        """Return the keys of a schema, and register the schema with the graph."""
