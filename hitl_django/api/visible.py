"""The rows a user may see; what isn't among them looks as if it didn't exist."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404

from .. import dispatch
from ..models import Interrupt, Run, Thread
from ..policy import get_policy

# All read from where writes go: a replica that lags would show a question as open that the
# same client has just answered.


def threads(user: Any) -> QuerySet[Thread]:
    """Return the threads that ``user`` may see."""
    return get_policy().visible_threads(user, Thread.objects.using(dispatch.alias()))


def thread(user: Any, thread_id: str) -> Thread:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(threads(user), thread_id=thread_id)


def runs(user: Any) -> QuerySet[Run]:
    """Return the runs that ``user`` may see."""
    rows = Run.objects.using(dispatch.alias()).select_related("thread")
    return get_policy().visible_runs(user, rows)


def run(user: Any, run_id: UUID) -> Run:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(runs(user), pk=run_id)


def interrupts(user: Any) -> QuerySet[Interrupt]:
    """Return the questions that ``user`` may see."""
    rows = Interrupt.objects.using(dispatch.alias()).select_related("thread")
    return get_policy().visible_interrupts(user, rows)


def interrupt(user: Any, interrupt_id: UUID) -> Interrupt:
    """Return one of them; Http404 if it isn't."""
    return get_object_or_404(interrupts(user), pk=interrupt_id)
