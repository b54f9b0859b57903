"""Stages at which threads are saved, and the steps to finish each thread."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db.models.functions import Now

from hitl_django import services, testing
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.worker.sweeper import sweep

from . import graphs


def make() -> None:
    """Create threads in the states from which a later version resumes them.

    The id of a thread names its state.
    """
    graphs.register()
    with testing.inline() as advance:
        start("gated-at-its-breakpoint", "history-gated", advance)
        services.start("history-everything", {"log": []}, thread_id="queued")
        testing.run_ids.clear()
        start("paused", "history-everything", advance)
        start("finished", "history-everything", advance)
        answer("finished", advance, most=99)
        start("under-way", "history-everything", advance)
        answer("under-way", advance, most=3)
        start("decided", "history-everything", advance)
        answer("decided", lambda: 0, most=2)
        testing.run_ids.clear()


def start(thread_id: str, graph: str, advance: Callable[[], int]) -> None:
    services.start(graph, {"log": []}, thread_id=thread_id)
    advance()


def answer(thread_id: str, advance: Callable[[], int], *, most: int) -> None:
    """Respond to ``most`` interrupts of a thread, in the order of the graph."""
    asked = Interrupt.objects.filter(thread__thread_id=thread_id, status="pending")
    for _ in range(most):
        interrupt = asked.order_by("title").first()
        if interrupt is None:
            return
        if interrupt.kind == "breakpoint":
            services.decide(interrupt.pk, "approve")
        else:
            services.decide(interrupt.pk, "respond", graphs.reply(interrupt.title))
        advance()


def finish() -> None:
    """Finish every thread."""
    with testing.inline() as advance:
        Run.objects.update(last_message_at=Now() - timedelta(days=1))
        sweep()
        advance()
        for thread_id in Thread.objects.values_list("thread_id", flat=True):
            answer(thread_id, advance, most=99)


def ended() -> set[str]:
    runs = Run.objects.filter(state=Run.State.SUCCEEDED)
    return set(runs.values_list("thread__thread_id", flat=True))
