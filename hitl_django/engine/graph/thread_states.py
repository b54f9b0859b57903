"""Reads and updates the state of a graph's threads between two runs."""

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
    """The state of a compiled graph's threads: read, listed and updated; only branches run."""

    checkpointer: BaseCheckpointSaver | bool | None
    config: RunnableConfig | None

    @property
    def saver(self) -> BaseCheckpointSaver | None:
        """The saver of a root run."""
        if self.checkpointer is True:
            raise RuntimeError("checkpointer=True cannot be used for root graphs.")
        return self.checkpointer if isinstance(self.checkpointer, BaseCheckpointSaver) else None

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread.

        Without the key ``checkpoint_id`` it is the live view: what finished tasks wrote is
        applied, ``next`` names what still has to run, ``interrupts`` are the questions that wait.
        With the key (even when it is None) it is the record of that super-step. With
        ``subgraphs``, each task carries the state of the graph it calls.
        """
        graph, saver, config = self._addressed(config)
        return run_query(snapshots.load_state(graph, config, subgraphs), saver)  # type: ignore[no-any-return]

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Like get_state."""
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
        """Yield the recorded states of a thread, newest first."""
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
        """Like get_state_history."""
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
        """Write to the state as if node ``as_node`` had returned ``values``.

        Its edges and branches apply as well. Without ``as_node`` it is the node that ran last,
        where only one did. ``as_node=END`` with None clears what is pending, ``"__input__"`` acts
        as new input, ``"__copy__"`` puts a copy beside the addressed checkpoint. Returns the
        config of the new checkpoint. Raises PendingInterruptsError where the thread's newest
        checkpoint waits for answers, which the update would lose.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Apply several super-steps of updates; see update_state."""
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
        """Like update_state."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Like bulk_update_state."""
        graph, saver, config = self._addressed(config)
        if graph is None:
            raise snapshots.build_not_found(config)
        query = updates.bulk_update(graph, config, supersteps, saver.get_next_version)
        return await arun_query(query, saver)  # type: ignore[no-any-return]

    def _addressed(
        self, config: RunnableConfig
    ) -> tuple[CompiledGraph | None, BaseCheckpointSaver, RunnableConfig]:
        """Return the graph that a config's namespace belongs to, the saver, and the config.

        None stands for a graph that its node reaches in a way that can't be seen.
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
        """Return the namespace this graph has when a task with namespace ``ns`` calls it."""
        return run_options.strip_task_ids(ns) if self.checkpointer is True else ns
