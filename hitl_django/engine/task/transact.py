"""The function transact(), which stores database writes and a result in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..errors import GraphBubbleUp
from ..savers.checkpoint import Commit
from .context import TaskContext, saver_calls, store_results, store_steps


class _Busy(GraphBubbleUp):
    """An exception that rolls the transaction back, because another OS thread is storing results.

    The other OS thread may be waiting for a database lock of this transaction.
    """


def call_in_transaction(context: TaskContext, key: str, function: Callable[[], Any]) -> Any:
    """Call a function, and store its result in the same transaction as its database writes.

    If the saver doesn't support transactions, the result is stored after the call.
    """

    def call_in_time() -> Any:
        context.check_in_time()
        with context.once_guard.transacting():
            result = function()
        context.check_in_time()
        return result

    store_steps(context)
    together = getattr(context.run.saver, "together", None)
    if together is None:
        result = call_in_time()
        context.remember(key, result)
        store_results(context)
        return result
    while True:
        try:
            return _stored_together(context, key, call_in_time, together)
        except _Busy:
            with context.once_guard.storing:
                pass  # Wait until the other OS thread has stored its results.


def _stored_together(
    context: TaskContext, key: str, call_in_time: Callable[[], Any], together: Callable[..., Any]
) -> Any:
    storing = context.once_guard.storing
    with ExitStack() as locks:

        def build_commit(result: Any) -> Commit | None:
            # Until the transaction ends, no other OS thread may store the task's results. The other
            # OS thread would store this result even if the transaction is rolled back.
            if not storing.acquire(blocking=False):
                raise _Busy
            locks.callback(storing.release)
            return context.build_results_with(key, result)

        # The function isn't called with ``perform``, because the transaction belongs to this OS
        # thread.
        with saver_calls():
            result, failure = together(call_in_time, build_commit)
        if failure is None:
            context.remember_stored(key, result)
            return result
    raise failure
