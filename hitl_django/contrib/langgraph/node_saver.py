"""Saver for a LangGraph graph called by a node of an engine graph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hitl_django.engine.constants import NS_SEP
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver as OurSaver
from hitl_django.engine.savers.checkpoint import TaskWrites
from hitl_django.engine.types import RunnableConfig

from .saver import BridgedSaver

#: Function that calls the engine's saver on an OS thread where these calls are possible.
Perform = Callable[..., Any]
APerform = Callable[..., Awaitable[Any]]


class NodeSaver(BridgedSaver):
    """Saver for a LangGraph graph called by a task.

    The graph's checkpoints are stored in the namespace of the task, and checkpoints of its
    subgraphs below that namespace. For each task, the graph starts without stored state.
    """

    def __init__(self, saver: OurSaver, ns: str, perform: Perform, aperform: APerform) -> None:
        super().__init__(saver)
        self._ns, self._perform_call, self._aperform_call = ns, perform, aperform

    def _perform(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._perform_call(function, *args)

    async def _aperform(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._aperform_call(function, *args)

    def _build_writes(
        self, task_id: str, task_path: str, writes: Sequence[tuple[str, Any]]
    ) -> TaskWrites:
        # The node receives responses to the graph's interrupts, and passes them on.
        return TaskWrites(task_id, task_path, writes, answered_by_run=True)

    def _locate(self, config: Any) -> RunnableConfig:
        ref = super()._locate(config)["configurable"]
        ns = ref.get("checkpoint_ns")
        return {"configurable": {**ref, "checkpoint_ns": _join(self._ns, ns)}}

    def _name(self, config: RunnableConfig) -> Any:
        ref = config["configurable"]
        ns = ref["checkpoint_ns"].removeprefix(self._ns).removeprefix(NS_SEP)
        return {"configurable": {**ref, "checkpoint_ns": ns}}


def _join(above: str, ns: str | None) -> str:
    return f"{above}{NS_SEP}{ns}" if ns else above
