"""Undo of decisions before the run resumes.

After a decision that can be undone, the run stays interrupted until the time in ``resumes_at``, and
no worker starts it. An undo locks the thread. If the run is still interrupted and no lease has been
taken since the decision (same epoch), all changes can be reverted.
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

#: Number by which an undo increases an interrupt's version: one for the closing, one for the
#: reopening.
VERSIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoInfo:
    """A decision that can be undone.

    ``until`` is the time limit, or None while the run waits for other interrupts.
    """

    decision_id: UUID
    until: datetime | None


def find_undo(interrupt_id: UUID | str, *, by: Any) -> UndoInfo | None:
    """Return the decision that closed the interrupt, or None if the user can't undo it now."""
    interrupt = lookup.find(interrupt_id, by)
    decision = interrupt.closing()
    if decision is None or (info := describe(interrupt, decision)) is None:
        return None
    return info if by is None or get_policy().may_undo(by, decision) else None


def describe(interrupt: Interrupt, decision: Decision) -> UndoInfo | None:
    """Return information about undoing a decision, or None if the decision can't be undone.

    The user's permission is not checked.
    """
    if _find_undo_obstacle(interrupt, interrupt.thread, decision, timezone.now()):
        return None
    return UndoInfo(decision_id=decision.pk, until=interrupt.resumes_at)


@retry_on_conflict
def undo(
    interrupt_id: UUID | str,
    *,
    by: Any = None,
    via: str = "code",
    decision_id: UUID | str | None = None,
) -> DecisionInfo:
    """Undo the decision that closed an interrupt.

    The interrupt becomes pending again. The audit log still contains the decision, but the decision
    has no effect. A user who undoes their own decision gets the claim. ``decision_id`` is the
    decision to undo, by default the one that closed the interrupt.

    Raises:
        UndoRefusedError: if the decision doesn't exist, the run has resumed, or UNDO_SECONDS have
            passed.
        NotAllowedError: if the user may not undo the decision.
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
    """Undo a decision on a locked thread.

    The caller has checked the permission. ``guest`` is the name of a person without an account who
    undoes the decision.

    Raises:
        UndoRefusedError: if the decision can't be undone now.
    """
    if obstacle := _find_undo_obstacle(interrupt, thread, decision, thread.now):
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


def _find_undo_obstacle(
    interrupt: Interrupt, thread: Thread, decision: Decision, now: datetime
) -> str:
    """Return the reason why a decision can't be undone now, or an empty string."""
    if interrupt.status != Interrupt.Status.DECIDED or decision.undo_epoch is None:
        return "The decision can't be undone: the run resumed immediately."
    run = interrupt.run
    # An unchanged epoch shows that no worker has claimed the thread since.
    if decision.undo_epoch != thread.epoch or run.state != Run.State.INTERRUPTED:
        return "The decision can no longer be undone: the run has resumed."
    # Without this time, the run waits for its other interrupts.
    if run.resumes_at is not None and run.resumes_at <= now:
        return "The decision can no longer be undone: the time limit has passed."
    return ""


def _reopen(interrupt: Interrupt, decision: Decision, using: str) -> None:
    """Make an interrupt pending again with a new version.

    Approvals before the decision still count.
    """
    version = decision.version + VERSIONS
    # An approval counts for its version, so move the approvals to the new version. This precedes
    # the update of the decision itself, because a user has at most one non-effective decision per
    # version.
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
    # Zero rows: the interrupt was changed manually, because all other changes wait for the thread's
    # lock.
    if not reopened:
        raise UndoRefusedError("The interrupt changed in the meantime.")


def _is_another_answered(interrupt: Interrupt, thread: Thread, using: str) -> bool:
    """Return whether the run can resume because another interrupt has a response."""
    if not resumption.resumes_on_each(interrupt.graph):
        return False
    answers = Decision.objects.using(using).filter(
        interrupt__run=interrupt.run_id, effective=True, undo_epoch=thread.epoch
    )
    return answers.exists()
