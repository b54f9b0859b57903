"""Rules for approvals by several people."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q

from hitl_django import answers, audit
from hitl_django.answers import AnswerOptions
from hitl_django.db.alias import write_alias
from hitl_django.decision_types import APPROVE, needs_agreement
from hitl_django.engine.errors import InvalidAnswerError, PayloadLimitError
from hitl_django.errors import AlreadyApprovedError, ClaimRequiredError, SelfApprovalError
from hitl_django.json_text import json_patch
from hitl_django.models import Decision, Interrupt, Run, Thread

from ..results import DecisionInfo
from . import lookup

OWN = "You started this run, so someone else has to approve."


def match_started_by(user: Any, run: str = "") -> Q:
    """Return a condition on runs: the user started the run.

    ``run`` is the lookup to a run from another model. A fork also matches if the user started the
    original run or another fork of the original run, because the input of these runs may have
    contributed to interrupts of the fork.
    """
    of = f"{run}__" if run else ""
    family = Run.objects.filter(
        Q(pk=OuterRef(f"{of}origin")) | Q(origin=OuterRef(f"{of}origin")),
        thread=OuterRef(f"{of}thread"),
        started_by=user.pk,
    )
    return Q(**{f"{of}started_by": user.pk}) | Q(Exists(family), **{f"{of}origin__isnull": False})


def is_own(interrupt: Interrupt, by: Any) -> bool:
    """Return whether the user can't approve the interrupt because the user started the run."""
    if by is None or not interrupt.no_self_approval:
        return False
    run = interrupt.run
    if run.origin is None:
        return run.started_by_id is not None and run.started_by_id == by.pk
    runs = Run.objects.using(write_alias()).filter(pk=run.pk)
    return runs.filter(match_started_by(by)).exists()


def refuse_own(interrupt: Interrupt, type: str, by: Any) -> None:  # noqa: A002
    """Raise SelfApprovalError if the user would approve an interrupt of a run they started.

    Rejecting is still allowed.
    """
    if needs_agreement(type) and is_own(interrupt, by):
        raise SelfApprovalError(
            OWN, thread_id=interrupt.thread.thread_id, subject=str(interrupt.pk)
        )


def refuse_unless_claimed(interrupt: Interrupt, thread: Thread, by: Any) -> None:
    """Raise an error if the interrupt requires a claim and the user doesn't have the claim.

    Raises:
        ClaimedError: if another user has the claim.
        ClaimRequiredError: if nobody has claimed the interrupt.
    """
    if by is None or not interrupt.claim_required:
        return
    lookup.raise_if_claimed(interrupt, thread, by)
    until = interrupt.claimed_until
    if until is None or until <= thread.now:
        raise ClaimRequiredError("This interrupt must be claimed before it can be decided.")


def is_seconded(options: AnswerOptions, answer: Any) -> bool:
    """Return whether a validated value equals the value proposed in this version of the interrupt.

    Without a proposal, the validated value is compared with the value of an approval without
    changes.
    """
    if options.proposal is not None:
        return json_patch.is_same_json(options.proposal["answer"], answer)
    if APPROVE not in options.allowed:
        return False
    try:
        return json_patch.is_same_json(answers.compose_resume_value(options, APPROVE), answer)
    except (InvalidAnswerError, PayloadLimitError):  # A plain approval is not possible.
        return False


def refuse_second_approval(interrupt: Interrupt, by: Any) -> None:
    """Raise AlreadyApprovedError if the user has already approved this version."""
    approvals = Decision.objects.using(write_alias()).filter(
        interrupt=interrupt, version=interrupt.version, by=by
    )
    # The foreign key is NULL for deleted users and for code. The label distinguishes them.
    approval = approvals.filter(by_label=audit.SYSTEM).first() if by is None else approvals.first()
    if approval is None:
        return
    raise AlreadyApprovedError(
        f"You already approved this version. {interrupt.approvals} of {interrupt.quorum} "
        "approvals.",
        status=str(interrupt.status),
        decision=DecisionInfo.from_row(approval, interrupt.run_id),
    )
