"""DjangoCheckpointer: LangGraph's checkpointer interface over Django's database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.serde import adopt_model

from .saver import BridgedSaver
from .shared_connection import call_with_connection


class DjangoCheckpointer(BridgedSaver):
    """Stores LangGraph's threads in Django's database: ``compile(checkpointer=…)`` takes it.

    State may hold what our own may, with langchain's messages and documents; ``types`` are classes
    of the application (dataclasses, pydantic models, enums, named tuples) beside those that
    ``register_model`` knows. What is of another class is refused when it is to be stored.
    """

    def __init__(self, *, types: Iterable[type] = ()) -> None:
        ours = DjangoSaver()
        super().__init__(ours)
        self._using = ours.using
        for cls in types:
            adopt_model(cls)

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread's history."""
        self._perform(self._saver.delete_thread, thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give another thread the whole history of one."""
        self._perform(self._saver.copy_thread, source_thread_id, target_thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints whose metadata has one of these as ``run_id``.

        Those that values of DeltaChannels in other checkpoints are made of are kept.
        """
        self._perform(self._saver.delete_for_runs, run_ids)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove history: all but the newest checkpoints (``keep_latest``), or all of it.

        With the newest those are kept that the values of its DeltaChannels are made of: LangGraph
        stores such a value in pieces, as far back as its last snapshot.
        """
        self._perform(partial(self._saver.prune, strategy=strategy), thread_ids)

    async def adelete_thread(self, thread_id: str) -> None:
        """Like delete_thread."""
        await self._aperform(self._saver.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Like copy_thread."""
        await self._aperform(self._saver.copy_thread, source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Like delete_for_runs."""
        await self._aperform(self._saver.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Like prune."""
        await self._aperform(partial(self._saver.prune, strategy=strategy), thread_ids)

    def _perform(self, function: Callable[..., Any], *args: Any) -> Any:
        return call_with_connection(self._using, function, *args)
