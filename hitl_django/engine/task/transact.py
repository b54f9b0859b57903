"""transact(): stores what a function writes to the database with its result, or neither."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..errors import GraphBubbleUp
from ..savers.checkpoint import Commit
from .context import TaskContext, saver_calls, store_results, store_steps


class _Busy(GraphBubbleUp):
    """Another thread of the task stores a result, and may wait for this one's transaction."""


def call_in_transaction(context: TaskContext, key: str, function: Callable[[], Any]) -> Any:
    """Call a function, and store its result in the transaction in which it writes.

    With a saver that has no transactions the result is stored after it.
    """

    def act() -> Any:
        context.check_in_time()
        with context.once_guard.transacting():
            result = function()
        context.check_in_time()
        return result

    store_steps(context)
    together = getattr(context.run.saver, "together", None)
    if together is None:
        result = act()
        context.remember(key, result)
        store_results(context)
        return result
    while True:
        try:
            return _stored_together(context, key, act, together)
        except _Busy:
            with context.once_guard.storing:
                pass  # until it has stored its own


def _stored_together(
    context: TaskContext, key: str, act: Callable[[], Any], together: Callable[..., Any]
) -> Any:
    storing = context.once_guard.storing
    with ExitStack() as held:

        def commit_of(result: Any) -> Commit | None:
            # Until the transaction has ended nobody else stores the results of this task, which
            # would hold this one even if it is undone.
            if not storing.acquire(blocking=False):
                raise _Busy
            held.callback(storing.release)
            return context.build_results_with(key, result)

        # Not by ``perform``: it is on this thread that the transaction is.
        with saver_calls():
            result, failure = together(act, commit_of)
        if failure is None:
            context.remember_stored(key, result)
            return result
    raise failure
