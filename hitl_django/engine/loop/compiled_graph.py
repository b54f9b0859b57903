"""The interface of a compiled graph, as the loop, its drivers and drawings use it."""

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
    """A compiled graph; ``Pregel`` is the one that there is."""

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
    input_keys: Sequence[str] | str
    output_keys: Sequence[str] | str
    output_set: frozenset[str]
    stream_keys: Sequence[str] | str
    state_keys: tuple[str, ...]
    interrupt_before: All | Sequence[str]
    interrupt_after: All | Sequence[str]
    output_type: Any
    state_schema: Any
    context_schema: Any
    migrated: Mapping[str, Any] | None

    @property
    def saver(self) -> BaseCheckpointSaver | None:
        """The saver of a root run."""

    def input_writes(self, value: Any) -> list[Write]:
        """Return the channel writes in an input."""

    def update_writes(self, update: Any) -> list[Write]:
        """Return the channel writes in the ``update`` of a Command."""

    def subgraph_of(self, name: str) -> CompiledGraph | None:
        """Return the graph that the node calls, as far as that can be seen."""

    def nested_ns(self, ns: str) -> str:
        """Return the namespace this graph has when a task with namespace ``ns`` calls it."""
