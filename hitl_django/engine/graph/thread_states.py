"""Reading and updating of a thread's state outside of runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

from ..drivers import arun_query, run_query
from ..errors import NoSaverError
from ..loop.compiled_graph import CompiledGraph
from ..savers.checkpoint import BaseCheckpointSaver
from ..types import RunnableConfig, StateSnapshot, StateUpdate
from . import run_options, snapshots, subgraphs
from . import update_state as updates
from .run_config import merge_configs


class ThreadStates:
    """Methods that read and update the stored state of a compiled graph's threads.

    An update with ``as_node`` runs the conditional edges of this node, but not the node itself.
    """

    checkpointer: BaseCheckpointSaver | bool | None
    config: RunnableConfig | None

    @property
    def saver(self) -> BaseCheckpointSaver | None:
        """The saver for runs of this graph as a root graph, or None if it has no saver.

        Raises:
            RuntimeError: the graph has ``checkpointer=True``, which is valid for subgraphs only.
        """
        if self.checkpointer is True:
            raise RuntimeError("checkpointer=True cannot be used for root graphs.")
        return self.checkpointer if isinstance(self.checkpointer, BaseCheckpointSaver) else None

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread.

        Without the config key ``checkpoint_id``, this is the current state: writes of finished
        tasks are applied, ``next`` names the remaining nodes, and ``interrupts`` are the pending
        interrupts. With the key, this is the state stored as that checkpoint, without the writes of
        finished tasks. A ``checkpoint_id`` of None selects the newest checkpoint. With
        ``subgraphs``, each task includes the state of its subgraph.
        """
        graph, saver, config = self._addressed(config)
        return run_query(snapshots.load_state(graph, config, subgraphs), saver)  # type: ignore[no-any-return]

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Async variant of get_state."""
        graph, saver, config = self._addressed(config)
        return await arun_query(snapshots.load_state(graph, config, subgraphs), saver)  # type: ignore[no-any-return]

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Yield the stored states of a thread, newest first.

        ``filter`` are metadata that the checkpoints must have. ``before`` is the config of a
        checkpoint: only states of earlier checkpoints are yielded.
        """
        graph, saver, config = self._addressed(config)
        yield from run_query(snapshots.load_history(graph, config, filter, before, limit), saver)

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Async variant of get_state_history."""
        graph, saver, config = self._addressed(config)
        for found in await arun_query(
            snapshots.load_history(graph, config, filter, before, limit), saver
        ):
            yield found

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Update the state as if the node ``as_node`` had returned ``values``.

        The edges and conditional edges of the node also apply. ``as_node`` defaults to the node
        that ran last, if there is only one. The update is stored as the writes of the task
        ``task_id``, by default a pending task of the node, or a new task. Special values of
        ``as_node`` are:

        - ``END`` with None as values: discard the pending tasks.
        - ``"__input__"``: apply the values as new input.
        - ``"__copy__"``: copy the selected checkpoint as a fork.

        Return the config of the new checkpoint.

        Raises:
            PendingInterruptsError: the newest checkpoint has pending interrupts, which the update
                would discard.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Apply the updates of several super-steps in order, as by ``update_state``.

        Return the config of the last new checkpoint.
        """
        graph, saver, config = self._addressed(config)
        if graph is None:
            raise snapshots.build_not_found(config)
        query = updates.bulk_update(graph, config, supersteps, saver.get_next_version)
        return run_query(query, saver)  # type: ignore[no-any-return]

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Async variant of update_state."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Async variant of bulk_update_state."""
        graph, saver, config = self._addressed(config)
        if graph is None:
            raise snapshots.build_not_found(config)
        query = updates.bulk_update(graph, config, supersteps, saver.get_next_version)
        return await arun_query(query, saver)  # type: ignore[no-any-return]

    def _addressed(
        self, config: RunnableConfig
    ) -> tuple[CompiledGraph | None, BaseCheckpointSaver, RunnableConfig]:
        """Return the graph that the config's namespace selects, the saver and the completed config.

        The graph is None if the namespace belongs to a subgraph whose call can't be detected.
        """
        if self.saver is None:
            raise NoSaverError("No checkpointer set")
        if self.config is not None:
            config = merge_configs(self.config, config)
        config = snapshots.complete_config(config)
        ns = config["configurable"]["checkpoint_ns"]
        root = cast(CompiledGraph, self)
        if not ns:
            return root, self.saver, config
        for _, graph in subgraphs.iterate_subgraphs(root, ns, True):
            return graph, self.saver, config
        return None, self.saver, config

    def nested_ns(self, ns: str) -> str:
        """Return the namespace of this graph when a task with the namespace ``ns`` calls it."""
        return run_options.strip_task_ids(ns) if self.checkpointer is True else ns
