"""Queue for tests, which collects runs until the test executes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.test import override_settings
from django.utils.module_loading import import_string

from hitl_django.db.commit_threads import commit_threads
from hitl_django.task_queue import dispatcher

#: The ids of queued runs, in the order in which they were enqueued.
run_ids: list[str] = []


class CollectingDispatcher(dispatcher.Dispatcher):
    """A dispatcher that collects the ids of runs and drops all other messages.

    Webhooks are sent only if a test calls ``contrib.webhooks.delivery.deliver``.
    """

    def reports_when_idle(self) -> bool:
        return True

    def enqueue(self, function: str, argument: str) -> None:
        if function == dispatcher.ADVANCE:
            run_ids.append(argument)


@contextmanager
def inline() -> Iterator[Callable[[], int]]:
    """Yield a function that executes all queued runs and returns the number of executed runs.

    The function also works inside a TestCase, whose transaction is never committed. Runs resume
    immediately after decisions, regardless of ``UNDO_SECONDS``. Use the function in tests that
    check stored data between two super-steps. In other tests, a GraphEnvironment needs less code.
    """
    path = f"{CollectingDispatcher.__module__}.{CollectingDispatcher.__qualname__}"
    earlier = run_ids[:]
    run_ids.clear()
    own = {"DISPATCH": path, "UNDO_SECONDS": 0}  # Tests don't wait for the time limit of an undo.
    with override_settings(HITL={**(getattr(settings, "HITL", None) or {}), **own}):
        try:
            yield _advance_all
        finally:
            run_ids[:] = earlier
            # PostgreSQL drops no test database in which another OS thread has a connection.
            commit_threads.close()


def _advance_all() -> int:
    advance = import_string(dispatcher.ADVANCE)
    done = 0
    while run_ids:
        advance(run_ids.pop(0))
        done += 1
    return done
