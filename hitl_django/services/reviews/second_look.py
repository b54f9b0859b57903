"""Second looks: of a graph's approvals a sample is drawn, which another reviewer judges.

The run goes on as ever, and a verdict changes nothing of it. Whether an approval is drawn follows
from the question's id and the site's secret key: nobody can know beforehand, nor try again, and
whoever has the key can check that the sample is the one that it should be.
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
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.decision_types import APPROVE
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Decision, Interrupt, SecondLook
from hitl_django.permissions import (
    find_row,
    get_policy,
    refuse_unless_may,
    select_visible_through,
)

from .. import denied_log, queries
from ..results import read_fields

#: What the digest is salted with, and how many bits of it are compared.
SALT, BITS = "hitl_django.second_look", 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLookInfo:
    """A verdict on an approval: whose approval, and who judged it when."""

    id: UUID
    interrupt_id: UUID
    decision_id: UUID
    verdict: str
    reason: str
    by_label: str
    judged_at: datetime | None


def is_drawn(interrupt_id: UUID | str, share: float) -> bool:
    """Says whether an approval of this question is in a sample of such a share."""
    digest = salted_hmac(SALT, str(interrupt_id), algorithm="sha256").digest()
    return int.from_bytes(digest[: BITS // 8]) < share * 2**BITS


def draw(batch: WriteBatch, interrupt: Interrupt, decision: Decision) -> None:
    """Adds a second look to the batch that stores a person's decision, if it is drawn."""
    share = registry.get_review_policy(interrupt.graph).second_look
    if decision.type != APPROVE or not share or not is_drawn(interrupt.pk, share):
        return
    look = queries.SECOND_LOOK.new(
        interrupt_id=interrupt.pk, decision_id=decision.pk, created_at=decision.created_at
    )
    batch.insert(queries.NEW_SECOND_LOOK, [queries.NEW_SECOND_LOOK.values_of(look)])


def match_own(user: Any) -> Q:
    """Matches the second looks at what the user has decided or agreed to."""
    own = Decision.objects.filter(interrupt=OuterRef("interrupt"), by=user.pk)
    return Q(Exists(own))


@retry_on_conflict
def judge_second_look(
    look_id: UUID | str, agrees: bool, *, reason: str = "", by: Any, via: str = "code"
) -> SecondLookInfo:
    """Records whether another reviewer would have approved as well; once.

    Who disagrees says why. It takes the right to decide the question, and is for nobody who
    decided it. Raises AlreadyDecidedError where somebody has judged it before.
    """
    refusal = denied_log.record_denial("judge", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        look = find_look(look_id, by)
        thread = leases.lock_thread(pk=look.interrupt.thread_id)
        message = "You may not decide this question, nor judge a decision on it."
        refuse_unless_may(by, get_policy().may_decide, look.interrupt, message)
        rows = SecondLook.objects.using(write_alias()).filter(pk=look.pk)
        if by is not None and rows.filter(match_own(by)).exists():
            raise NotAllowedError(
                "You decided this question yourself.",
                thread_id=thread.thread_id,
                subject=str(look.interrupt_id),
            )
        reason = escape_unstorable(reason.strip())
        if not agrees and not reason:
            raise InvalidInputError("A reason is missing.", [("reason", "is empty")])
        look.verdict = SecondLook.Verdict.AGREE if agrees else SecondLook.Verdict.DISAGREE
        look.reason, look.by, look.by_label = reason, by, audit.label_user(by)
        look.judged_at = thread.now
        columns = ("verdict", "reason", "by", "by_label", "judged_at")
        changes = {name: getattr(look, name) for name in columns}
        # Zero rows: somebody else gave a verdict meanwhile.
        if not rows.filter(verdict="").update(**changes):
            raise AlreadyDecidedError(
                "Somebody else has judged this already.", status="judged", decision=None
            )
        detail = {
            "decision": str(look.decision_id),
            "verdict": str(look.verdict),
            "reason": reason,
        }
        subject = str(look.interrupt_id)
        audit.append_alone(thread, "judge", by=by, via=via, subject=subject, detail=detail)
        return SecondLookInfo(**read_fields(SecondLookInfo, look))


def find_look(look_id: UUID | str, by: Any) -> SecondLook:
    """Returns a second look; one at a question that the user may not see doesn't exist."""
    rows = SecondLook.objects.using(write_alias())
    rows = rows.select_related("interrupt__run", "interrupt__thread", "decision")
    return find_row(select_visible_through(rows, "interrupt", by), InterruptNotFound, pk=look_id)
