"""Spot checks: another reviewer checks a random sample of a graph's approvals.

The run doesn't wait for the check, and the result doesn't affect the run. The sample is computed
from the ids of the interrupts and the site's secret key. Nobody can predict or influence the
sample, and anyone with the key can verify it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils.crypto import salted_hmac

from hitl_django import audit, leases
from hitl_django.db.alias import write_alias
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.row_mapper import RowMapper
from hitl_django.db.write_batch import WriteBatch
from hitl_django.decision_types import APPROVE
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, NotAllowedError
from hitl_django.events import EventName
from hitl_django.extensions import Event
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Decision
from hitl_django.permissions import (
    find_row,
    get_policy,
    refuse_unless_may,
    select_visible_through,
)
from hitl_django.services import denied_log
from hitl_django.services.results import read_fields

from . import sampling
from .models import SpotCheck

#: Salt of the digest, and number of bits that are compared.
SALT, BITS = "hitl_insights.spot_check", 64

_ROWS = RowMapper(SpotCheck)
_NEW_ROW = BulkInsert(SpotCheck, [*insertable_columns(SpotCheck), "created_at"], fresh=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCheckInfo:
    """A spot check with its result."""

    id: UUID
    interrupt_id: UUID
    decision_id: UUID
    result: str
    reason: str
    by_label: str
    checked_at: datetime | None


def is_sampled(interrupt_id: UUID | str, rate: float) -> bool:
    """Return whether a sample with this rate includes an approval of this interrupt."""
    digest = salted_hmac(SALT, str(interrupt_id), algorithm="sha256").digest()
    return int.from_bytes(digest[: BITS // 8]) < rate * 2**BITS


def sample_decision(batch: WriteBatch, event: Event) -> None:
    """If ``event`` is an approval that the sample includes, add a spot check to ``batch``.

    If ``event`` is the undo of an approval, the spot check of the approval is deleted. ``batch``
    contains the writes of the transaction that stores the event.
    """
    decision: Decision | None = event.decision
    if decision is None:
        return
    if event.name == EventName.INTERRUPT_UNDONE:
        rows = SpotCheck.objects.using(batch.using).filter(decision=decision.pk)
        batch.before_commit(rows.delete)
        return
    rate = sampling.get_rate(event.graph)
    is_by_person = decision.by_id is not None or decision.by_label != audit.SYSTEM
    if decision.type != APPROVE or not rate or not is_by_person:
        return
    if is_sampled(decision.interrupt_id, rate):
        row = _ROWS.new(
            interrupt_id=decision.interrupt_id,
            decision_id=decision.pk,
            created_at=decision.created_at,
        )
        batch.insert(_NEW_ROW, [_NEW_ROW.values_of(row)])


def match_own(user: Any) -> Q:
    """Return a filter for spot checks of interrupts that the user has decided or approved."""
    own = Decision.objects.filter(interrupt=OuterRef("interrupt"), by=user.pk)
    return Q(Exists(own))


@retry_on_conflict
def record_spot_check(
    check_id: UUID | str, agrees: bool, *, reason: str = "", by: Any, via: str = "code"
) -> SpotCheckInfo:
    """Store the result of a spot check: whether another reviewer would also have approved.

    Raises:
        InvalidInputError: if the reviewer disagrees and the reason is empty.
        NotAllowedError: if the user may not decide the interrupt, or has decided it.
        AlreadyDecidedError: if the spot check already has a result.
    """
    refusal = denied_log.record_denial("spot_check", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        check = find_spot_check(check_id, by)
        thread = leases.lock_thread(pk=check.interrupt.thread_id)
        message = "You don't have permission to decide this request."
        refuse_unless_may(by, get_policy().may_decide, check.interrupt, message)
        rows = SpotCheck.objects.using(write_alias()).filter(pk=check.pk)
        if by is not None and rows.filter(match_own(by)).exists():
            raise NotAllowedError(
                "You decided this interrupt yourself.",
                thread_id=thread.thread_id,
                subject=str(check.interrupt_id),
            )
        reason = escape_unstorable(reason.strip())
        if not agrees and not reason:
            raise InvalidInputError("A reason is required.", [("reason", "is empty")])
        check.result = SpotCheck.Result.AGREE if agrees else SpotCheck.Result.DISAGREE
        check.reason, check.by, check.by_label = reason, by, audit.label_user(by)
        check.checked_at = thread.now
        columns = ("result", "reason", "by", "by_label", "checked_at")
        changes = {name: getattr(check, name) for name in columns}
        # Zero rows: another reviewer has stored a result in the meantime.
        if not rows.filter(result="").update(**changes):
            raise AlreadyDecidedError(
                "This spot check already has a result.", status="checked", decision=None
            )
        detail = {
            "decision": str(check.decision_id),
            "result": str(check.result),
            "reason": reason,
        }
        subject = str(check.interrupt_id)
        audit.append_alone(thread, "spot_check", by=by, via=via, subject=subject, detail=detail)
        return SpotCheckInfo(**read_fields(SpotCheckInfo, check))


def find_spot_check(check_id: UUID | str, by: Any) -> SpotCheck:
    """Return a spot check.

    Raises:
        InterruptNotFound: if there is no such spot check, or the user can't view its interrupt.
    """
    rows = SpotCheck.objects.using(write_alias())
    rows = rows.select_related("interrupt__run", "interrupt__thread", "decision")
    return find_row(select_visible_through(rows, "interrupt", by), InterruptNotFound, pk=check_id)
