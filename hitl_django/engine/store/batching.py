"""A store that combines the calls of one event loop iteration into a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Iterable, Sequence
from typing import Any

from .operations import Op, PutOp, Result
from .store import BaseStore


class AsyncBatchedBaseStore(BaseStore):
    """Base class of stores that combine the calls of one event loop iteration into a batch.

    Subclasses implement ``abatch``. A store is created on its event loop. Its methods may be called
    on OS threads and on other event loops. On the store's event loop, sync methods raise
    ``asyncio.InvalidStateError``, because they would block the event loop. Batches run one after
    the other.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[asyncio.Future[Any], Op]] = []
        self._task: asyncio.Task[None] | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = self._wait_for(self.abatch, ops)
        return results

    def _perform_one(self, op: Op) -> Any:
        return self._wait_for(self._aperform_one, op)

    async def _aperform_one(self, op: Op) -> Any:
        if asyncio.get_running_loop() is not self._loop:
            elsewhere = asyncio.run_coroutine_threadsafe(self._aperform_one(op), self._loop)
            return await asyncio.wrap_future(elsewhere)
        future = self._loop.create_future()
        self._waiting.append((future, op))
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._perform_waiting())
        return await future

    def _wait_for(self, begin: Any, argument: Any) -> Any:
        if _find_loop() is self._loop:
            raise asyncio.InvalidStateError(
                f"{type(self).__name__} was called from its own event loop, which would "
                "block it: use the async methods (aget, asearch, aput, …)."
            )
        coroutine: Coroutine[Any, Any, Any] = begin(argument)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _perform_waiting(self) -> None:
        while self._waiting:
            gathered, self._waiting = self._waiting, []
            # Cancelled calls are not performed.
            await self._answer([(future, op) for future, op in gathered if not future.done()])

    async def _answer(self, gathered: Sequence[tuple[asyncio.Future[Any], Op]]) -> None:
        merged, places = merge_ops([op for _, op in gathered])
        try:
            results = await self.abatch(merged) if merged else []
        except Exception as error:
            for future, _ in gathered:
                if not future.done():
                    future.set_exception(error)
            return
        for (future, _), place in zip(gathered, places, strict=True):
            if not future.done():
                future.set_result(results[place])


def merge_ops(ops: Sequence[Op]) -> tuple[list[Op], list[int]]:
    """Return ``ops`` without duplicates, and a list of indexes.

    The n-th index is the position of the result of ``ops[n]`` among the results of the returned
    operations. Equal reads become one operation. Of several puts with the same namespace and key,
    only the last is returned.
    """
    merged: list[Op] = []
    places: list[int] = []
    known: dict[Hashable, int] = {}
    for op in ops:
        # A filter is an unhashable dict, so its repr is used. Equal dicts usually have equal reprs.
        name: Hashable = (op.namespace, op.key) if isinstance(op, PutOp) else repr(op)
        place = known.setdefault((isinstance(op, PutOp), name), len(merged))
        if place == len(merged):
            merged.append(op)
        else:
            merged[place] = op
        places.append(place)
    return merged, places


def _find_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
