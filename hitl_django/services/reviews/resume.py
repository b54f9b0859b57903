"""Service that resumes a thread with values, as LangGraph's clients do.

Each value is stored as a decision on an interrupt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from hitl_django import leases, run_events
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import NothingPendingError, UnknownInterruptError
from hitl_django.errors import NotAllowedError, RunNotFound
from hitl_django.models import Interrupt, Run
from hitl_django.permissions import find_row, select_visible

from .. import denied_log
from ..results import DecisionInfo
from ..runs.state import find_thread
from .decide import decide

#: Format of an interrupt's id in the engine, and format of the id of its row.
_ENGINE_ID = re.compile("[0-9a-f]{32}")
_ROW_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ResumeResult(NamedTuple):
    """The resumed run, the number of the last event before it resumed, and the decisions."""

    run_id: UUID
    last_event: int
    decisions: tuple[DecisionInfo, ...]


def resume(
    thread_id: str,
    value: Any,
    *,
    events: Collection[str] = (),
    by: Any = None,
    via: str = "code",
) -> ResumeResult:
    """Decide a thread's pending interrupt with a resume value.

    To decide several interrupts, pass a dict of values by interrupt id. Each value is a decision,
    checked and stored as ``decide`` does. Either all decisions are stored, or none. ``events`` are
    further kinds of events that the run stores from now on.

    Raises:
        AlreadyDecidedError: if an interrupt is closed. The error contains the decision.
        NothingPendingError: if the thread never had an interrupt.
        UnknownInterruptError: if several interrupts are pending and no id is given, or if an id is
            unknown.
    """
    with denied_log.record_denial("decide", by=by, via=via):
        refused: NotAllowedError
        try:
            return _resume(thread_id, value, events, by, via)
        except NotAllowedError as error:
            # The rollback removed the decision's audit log entry about the denial, so store it
            # again.
            refused = error
        raise refused


@retry_on_conflict
def _resume(thread_id: str, value: Any, events: Collection[str], by: Any, via: str) -> ResumeResult:
    with transaction.atomic(using=write_alias()):
        answers = _address(thread_id, value, by)
        if events:
            leases.lock_thread(pk=answers[0][0].thread_id)
        run = find_row(Run.objects.using(write_alias()), RunNotFound, pk=answers[0][0].run_id)
        if events:
            run_events.store_also(run, events)
        made = tuple(decide(row.pk, resume=answer, by=by, via=via) for row, answer in answers)
        return ResumeResult(run.pk, run.last_event, made)


def _address(thread_id: str, value: Any, by: Any) -> list[tuple[Interrupt, Any]]:
    """Return pairs of an interrupt of the thread and the value for that interrupt."""
    thread = find_thread(thread_id, by)
    rows = select_visible(Interrupt.objects.using(write_alias()), by).filter(thread=thread)
    waiting = list(rows.filter(status=Interrupt.Status.PENDING).order_by("created_at", "pk"))
    known = [row.interrupt_id for row in waiting]
    if _is_by_id(value):
        return [(_find(rows, name, known), answer) for name, answer in value.items()]
    if len(waiting) > 1:
        raise UnknownInterruptError(
            "The thread has several pending interrupts. Specify which one to answer by its id.",
            reason="ambiguous",
            interrupt_ids=[],
            pending_ids=known,
        )
    # If no interrupt is pending, use the newest one, so that the error names its decision.
    asked = waiting or list(rows.order_by("-created_at", "-pk")[:1])
    if not asked:
        raise NothingPendingError("The thread has no pending interrupt.", thread_id=thread_id)
    return [(asked[0], value)]


def _is_by_id(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(_ENGINE_ID.fullmatch(name) or _ROW_ID.fullmatch(name) for name in value)


def _find(rows: Any, name: str, known: list[str]) -> Interrupt:
    key = {"interrupt_id": name} if _ENGINE_ID.fullmatch(name) else {"pk": name}
    found: Interrupt | None = rows.filter(**key).first()
    if found is None:
        raise UnknownInterruptError(
            "The thread has no pending interrupt with this id.",
            reason="not_pending",
            interrupt_ids=[name],
            pending_ids=known,
        )
    return found
