"""Runs graphs inside a test: no worker, no queue, no waiting.

def test_refund(db):
    with hitl_django.testing.inline() as advance:
        run = hitl_django.start("refund", {"amount": 120})
        advance()
        question = Interrupt.objects.get(run_id=run.id)
        hitl_django.decide(question.pk, "approve")
        advance()
    assert Run.objects.get(pk=run.id).state == "succeeded"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from django.conf import settings
from django.test import override_settings
from django.utils.module_loading import import_string

from hitl_django.db.write_batch import WriteBatch
from hitl_django.task_queue import dispatcher

_hinted: list[str] = []


class CollectingDispatcher(dispatcher.InlineDispatcher):
    """Keeps hints until they are asked for."""

    def hint(self, run_id: str, batch: WriteBatch) -> None:
        batch.after_write(partial(_hinted.append, run_id))

    def hint_webhook(self, endpoint_id: str) -> None:
        """Does nothing: a test sends nothing out unless it calls ``webhooks.deliver`` itself."""


@contextmanager
def inline() -> Iterator[Callable[[], int]]:
    """Gives a function that advances every run hinted so far, and returns how many there were.

    It works inside a TestCase too, whose transaction is never committed.
    """
    path = f"{CollectingDispatcher.__module__}.{CollectingDispatcher.__qualname__}"
    earlier = _hinted[:]
    _hinted.clear()
    with override_settings(HITL={**(getattr(settings, "HITL", None) or {}), "DISPATCH": path}):
        try:
            yield _advance_all
        finally:
            _hinted[:] = earlier


def _advance_all() -> int:
    advance = import_string(dispatcher.ADVANCE)
    done = 0
    while _hinted:
        advance(_hinted.pop(0))
        done += 1
    return done
