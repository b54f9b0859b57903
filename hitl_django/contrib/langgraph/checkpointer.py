"""DjangoCheckpointer: LangGraph's checkpointer interface over Django's database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import Any

from django.db import connections

from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.commit_threads import commit_threads
from hitl_django.engine.serde import adopt_model
from hitl_django.errors import OpenTransactionError

from .saver import BridgedSaver

#: The connection of who called a graph. LangGraph hands the context on to its threads.
_caller: ContextVar[Any] = ContextVar("caller", default=None)


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
        """Removes a thread's history."""
        self._perform(self._saver.delete_thread, thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Gives another thread the whole history of one."""
        self._perform(self._saver.copy_thread, source_thread_id, target_thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints whose metadata has one of these as ``run_id``."""
        self._perform(self._saver.delete_for_runs, run_ids)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes history: all but the newest checkpoints (``keep_latest``), or all of it."""
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
        own = connections[self._using]
        if own.connection is not None:
            _caller.set(own)
            return function(*args)
        if (caller := _caller.get()) is not None and caller.in_atomic_block:
            raise OpenTransactionError(
                "LangGraph stores from threads of its own, which see nothing of the transaction "
                "that is open here. Call the graph outside of it; a test is a TransactionTestCase."
            )
        # The threads are new ones for each run. A connection that such a thread opened would be
        # left to the garbage collector, so it borrows one instead.
        result: Future[Any] = Future()
        commit_threads.submit(lambda: result.set_result(function(*args))).result()
        return result.result()
