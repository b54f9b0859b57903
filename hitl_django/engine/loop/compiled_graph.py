"""The interface of a compiled graph, as used by the loop, the drivers and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..channels import BaseChannel
from ..savers.checkpoint import BaseCheckpointSaver
from ..task.graph_spec import GraphSpec
from ..task.nodes import Node, Write
from ..types import All, RetryPolicy, RunnableConfig
from .node_cache import BaseCache


class CompiledGraph(Protocol):
    """The interface of a compiled graph, which ``Pregel`` implements."""

    spec: GraphSpec
    nodes: dict[str, Node]
    channels: dict[str, BaseChannel]
    name: str
    config: RunnableConfig | None
    cache: BaseCache | None
    store: Any
    checkpointer: BaseCheckpointSaver | bool | None
    step_timeout: float | None
    retry_policy: tuple[RetryPolicy, ...]
    input_channels: Sequence[str] | str
    output_channels: Sequence[str] | str
    output_set: frozenset[str]
    stream_keys: Sequence[str] | str
    state_keys: tuple[str, ...]
    interrupt_before_nodes: All | Sequence[str]
    interrupt_after_nodes: All | Sequence[str]
    output_type: Any
    state_schema: Any
    context_schema: Any
    migrated: Mapping[str, Any] | None

    @property
    def saver(self) -> BaseCheckpointSaver | None:
        """The saver for runs of this graph as a root graph, or None if it has no saver."""

    def input_writes(self, value: Any) -> list[Write]:
        """Return the channel writes of an input."""

    def update_writes(self, update: Any) -> list[Write]:
        """Return the channel writes of a Command's ``update``."""

    def subgraph_of(self, name: str) -> CompiledGraph | None:
        """Return the subgraph called by a node, or None if no call can be detected."""

    def nested_ns(self, ns: str) -> str:
        """Return the namespace of this graph when a task with the namespace ``ns`` calls it."""
