"""The queue of a test: it keeps what is due, until the test says when that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.test import override_settings
from django.utils.module_loading import import_string

from hitl_django.task_queue import dispatcher

#: The ids of the runs that are due, in the order in which they were enqueued.
run_ids: list[str] = []


class CollectingDispatcher(dispatcher.Dispatcher):
    """Keeps the ids of runs that are due, and drops all other messages.

    A test sends no webhooks unless it calls ``contrib.webhooks.delivery.deliver`` itself.
    """

    def reports_when_idle(self) -> bool:
        return True

    def enqueue(self, function: str, argument: str) -> None:
        if function == dispatcher.ADVANCE:
            run_ids.append(argument)


@contextmanager
def inline() -> Iterator[Callable[[], int]]:
    """Give a function that advances every run enqueued so far, and return how many there were.

    It works inside a TestCase too, whose transaction is never committed. A run goes on at once with
    what was decided, whatever ``UNDO_SECONDS`` says. For code that wants to look at what is stored
    between two steps; else GraphEnvironment says the same in fewer lines.
    """
    path = f"{CollectingDispatcher.__module__}.{CollectingDispatcher.__qualname__}"
    earlier = run_ids[:]
    run_ids.clear()
    own = {"DISPATCH": path, "UNDO_SECONDS": 0}  # a test doesn't wait
    with override_settings(HITL={**(getattr(settings, "HITL", None) or {}), **own}):
        try:
            yield _advance_all
        finally:
            run_ids[:] = earlier


def _advance_all() -> int:
    advance = import_string(dispatcher.ADVANCE)
    done = 0
    while run_ids:
        advance(run_ids.pop(0))
        done += 1
    return done
