"""undo: who decided a question takes that back, as long as its run hasn't gone on with it.

A decision that can be undone leaves its run waiting, until the moment that stands on the run's row
(``resume``). No worker takes up a run that waits; so whoever has the thread's lock and finds the
run still waiting, in the epoch of the decision, can put everything back as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from hitl_django import audit, events, signals
from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import UndoRefusedError
from hitl_django.events import EventName
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.search import index_text
from hitl_django.permissions import get_policy, refuse_unless_may

from .. import denied_log
from ..results import DecisionInfo
from . import claim, lookup, resumption

NOTHING = "There is no decision to undo."

#: By how much a question's version is higher after an undo: it was closed, and opened again.
VERSIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoInfo:
    """A decision that can be undone; ``until`` is None as long as its run waits for others."""

    decision_id: UUID
    until: datetime | None


def find_undo(interrupt_id: UUID | str, *, by: Any) -> UndoInfo | None:
    """Return the decision that closed a question, if the user can undo it at this moment."""
    if not hitl.UNDO_SECONDS:
        return None
    interrupt = lookup.find(interrupt_id, by)
    decision = interrupt.closing()
    if decision is None or not (by is None or get_policy().may_undo(by, decision)):
        return None
    return describe(interrupt, decision)


def describe(interrupt: Interrupt, decision: Decision) -> UndoInfo | None:
    """Return how long a decision can be undone; None where it can't, whoever asks."""
    if _find_obstacle(interrupt, interrupt.thread, decision, timezone.now()):
        return None
    return UndoInfo(decision_id=decision.pk, until=interrupt.run.resumes_at)


@retry_on_conflict
def undo(
    interrupt_id: UUID | str,
    *,
    by: Any = None,
    via: str = "code",
    decision_id: UUID | str | None = None,
) -> DecisionInfo:
    """Undo the decision that closed a question: it is open again, as if nobody had decided it.

    The decision stays in the record and counts for nothing; whoever undoes their own holds the
    question. ``decision_id`` names which one is meant. UndoRefusedError where there is none, or its
    run has gone on, or is about to: UNDO_SECONDS are over.
    """
    refusal = denied_log.record_denial("undo", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread, interrupt = lookup.lock(interrupt_id, by)
        decision = interrupt.closing()
        if decision is None or decision_id not in (None, decision.pk, str(decision.pk)):
            raise UndoRefusedError(NOTHING)
        _refuse_if_not_allowed(interrupt, decision, by)
        return undo_locked(thread, interrupt, decision, by=by, via=via)


def undo_locked(
    thread: Thread,
    interrupt: Interrupt,
    decision: Decision,
    *,
    by: Any,
    via: str,
    guest: str = "",
) -> DecisionInfo:
    """Undo a decision on a question whose thread is locked; the caller has asked who may."""
    if obstacle := _find_obstacle(interrupt, thread, decision, thread.now):
        raise UndoRefusedError(obstacle)
    using = write_alias()
    _reopen(interrupt, decision, using)
    Decision.objects.using(using).filter(pk=decision.pk).update(
        effective=None, undone_at=thread.now
    )
    decision.effective, decision.undone_at = None, thread.now
    if not _is_another_answered(interrupt, thread, using):
        Run.objects.using(using).filter(pk=interrupt.run_id).update(resumes_at=None)
    DjangoSaver(ThreadKey(thread.pk, thread.thread_id, thread.epoch)).withdraw_answer(interrupt)
    if by is not None and decision.by_id == by.pk:
        claim.write_claim(Interrupt.objects.using(using).filter(pk=interrupt.pk), by, None)
    batch = WriteBatch(using)
    subject, detail = (
        str(interrupt.pk),
        {
            "decision": str(decision.pk),
            "type": str(decision.type),
            "payload_digest": decision.payload_digest,
            "version": decision.version,
        },
    )
    audit.append(batch, thread, "undo", by=by, guest=guest, via=via, subject=subject, detail=detail)
    events.publish(
        batch,
        EventName.INTERRUPT_UNDONE,
        interrupt.graph,
        interrupt_id=interrupt.pk,
        digest=interrupt.payload_digest,
        run_id=interrupt.run_id,
        thread_id=thread.thread_id,
        decision=decision,
        decision_id=decision.pk,
    )
    batch.run()
    info = DecisionInfo.from_row(decision, interrupt.run_id)
    signals.send_on_commit(signals.decision_undone, using=using, decision=info)
    return info


def _refuse_if_not_allowed(interrupt: Interrupt, decision: Decision, by: Any) -> None:
    def may(user: Any, interrupt: Interrupt) -> bool:
        return get_policy().may_undo(user, decision)

    refuse_unless_may(by, may, interrupt, "Only the person who made the decision can undo it.")


def _find_obstacle(interrupt: Interrupt, thread: Thread, decision: Decision, now: datetime) -> str:
    """Says why a decision can't be undone at this moment; "" where it can."""
    if interrupt.status != Interrupt.Status.DECIDED or decision.undo_epoch is None:
        return "The decision can't be undone: the run resumed immediately."
    run = interrupt.run
    # The epoch says that nobody has claimed the thread since, whatever the run's state is by now.
    if decision.undo_epoch != thread.epoch or run.state != Run.State.INTERRUPTED:
        return "The decision can no longer be undone: the run has resumed."
    # Without a moment the run waits for answers to its other questions.
    if run.resumes_at is not None and run.resumes_at <= now:
        return "The decision can no longer be undone: the time limit has passed."
    return ""


def _reopen(interrupt: Interrupt, decision: Decision, using: str) -> None:
    """Open a question again, in a version of its own; what others have agreed to still counts."""
    version = decision.version + VERSIONS
    # A vote counts for the version that it names. The question asks the same as then, so it goes
    # along. And before the decision itself becomes one that isn't effective: a person has one of
    # those in a version.
    rows = Decision.objects.using(using).filter(interrupt=interrupt, version=decision.version)
    rows.filter(effective=None).update(version=version)
    reopened = (
        Interrupt.objects.using(using)
        .filter(pk=interrupt.pk, status=Interrupt.Status.DECIDED, version=interrupt.version)
        .update(
            status=Interrupt.Status.PENDING,
            closed_at=None,
            version=F("version") + 1,
            search_grams=index_text(interrupt.search_text, using),
        )
    )
    # Zero rows: somebody changed the question by hand, as everybody else waits for the thread's
    # lock to do so.
    if not reopened:
        raise UndoRefusedError("The interrupt changed in the meantime.")


def _is_another_answered(interrupt: Interrupt, thread: Thread, using: str) -> bool:
    """Return whether the run has another answer to go on with."""
    if not resumption.resumes_on_each(interrupt.graph):
        return False
    answers = Decision.objects.using(using).filter(
        interrupt__run=interrupt.run_id, effective=True, undo_epoch=thread.epoch
    )
    return answers.exists()
