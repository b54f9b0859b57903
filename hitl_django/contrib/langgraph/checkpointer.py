"""``DjangoCheckpointer``: LangGraph's checkpointer interface on Django's database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.serde import adopt_model

from .saver import BridgedSaver
from .shared_connection import call_with_connection


class DjangoCheckpointer(BridgedSaver):
    """Checkpointer that stores LangGraph threads in Django's database: ``compile(checkpointer=…)``.

    State may contain the types of the engine, and LangChain's messages and documents. ``types`` are
    additional classes of the application (dataclasses, pydantic models, enums, named tuples).
    Classes passed to ``register_model`` are also allowed. Values of other classes are rejected when
    they are stored.
    """

    def __init__(self, *, types: Iterable[type] = ()) -> None:
        ours = DjangoSaver()
        super().__init__(ours)
        self._using = ours.using
        for cls in types:
            adopt_model(cls)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's history."""
        self._perform(self._saver.delete_thread, thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the history of a thread to another thread."""
        self._perform(self._saver.copy_thread, source_thread_id, target_thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints whose metadata contains one of the ids as ``run_id``.

        A checkpoint remains if values of DeltaChannels in other checkpoints depend on it.
        """
        self._perform(self._saver.delete_for_runs, run_ids)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the history of threads.

        With the strategy ``delete``, all checkpoints are deleted. With ``keep_latest``, the newest
        checkpoint of each namespace is kept if a task may still read it. An older checkpoint is
        also kept if a DeltaChannel of a kept checkpoint depends on it, because LangGraph stores
        deltas since the last snapshot.
        """
        self._perform(partial(self._saver.prune, strategy=strategy), thread_ids)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._aperform(self._saver.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._aperform(self._saver.copy_thread, source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._aperform(self._saver.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._aperform(partial(self._saver.prune, strategy=strategy), thread_ids)

    def _perform(self, function: Callable[..., Any], *args: Any) -> Any:
        return call_with_connection(self._using, function, *args)
