"""Storage of decisions: closing decisions, approvals and proposals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import connections
from django.db.models import F
from django.utils.crypto import salted_hmac

from hitl_django import answers, audit, events, run_events
from hitl_django.answers import AnswerOptions
from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.checkpoints.queries import AnswersRow
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.decision_types import needs_agreement
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import HitlError, InvalidAnswerError
from hitl_django.events import EventName
from hitl_django.json_text import schema_keywords
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.fields import canonical_json, digest_json
from hitl_django.models.review import get_cleared_claim
from hitl_django.task_queue import dispatcher

from .. import queries
from . import lookup, quorum, resumption

KEY_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Guest:
    """A person who decides without a user account.

    Attributes:
        label: the person's name.
        invitation: the id of the person's invitation.
        invited_by: the name of the user who created the invitation.
    """

    label: str
    invitation: str
    invited_by: str


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request to decide an interrupt.

    Attributes:
        type: the decision type, or an empty string if ``resume`` is given.
        resume: the resume value, given instead of type and value.
        digest: the digest of the request, equal for a repeated request.
        ignore_claim: whether another user's claim on the interrupt is ignored. The digest doesn't
            cover this attribute, because a user who confirms a ClaimedError repeats the request.
        skip_permission_checks: whether the caller has checked the permission of ``by``.
    """

    type: str
    value: Any
    resume: Any
    by: Any
    via: str
    reason: str
    key: str
    guest: Guest | None
    digest: str
    ignore_claim: bool = True
    skip_permission_checks: bool = False

    @property
    def checked_user(self) -> Any:
        """The user whose permissions are checked, or None to check no permission."""
        return None if self.skip_permission_checks else self.by

    @classmethod
    def build(
        cls,
        type: str | None,  # noqa: A002
        value: Any,
        *,
        resume: Any = UNSET,
        by: Any,
        via: str,
        reason: str,
        key: str,
        guest: Guest | None = None,
        ignore_claim: bool = True,
        skip_permission_checks: bool = False,
    ) -> DecisionRequest:
        """Return the request after validating its idempotency key and value.

        Raises:
            InvalidAnswerError: if the idempotency key or the value is not valid.
        """
        if key and (len(key) > KEY_LENGTH or not key.isprintable()):
            raise InvalidAnswerError(
                f"The idempotency key must be 1 to {KEY_LENGTH} printable characters.",
                [("", "invalid idempotency key")],
            )
        if (type is None) is (resume is UNSET) or (type is None and value is not UNSET):
            raise TypeError(
                "A decision needs either a type, optionally with a value, or a resume value."
            )
        reason = escape_unstorable(reason)
        content: dict[str, Any] = {"reason": reason}
        if type is not None:
            content["type"] = str(type)
        for name, given in (("value", value), ("resume", resume)):
            if given is not UNSET:
                answers.check_limits(given)
                content[name] = given
        # Use a keyed hash, because a plain digest of a short secret would reveal the secret.
        keyed = salted_hmac(__name__, canonical_json(content), algorithm="sha256")
        digest = keyed.hexdigest()[:32]
        return cls(
            type=type or "",
            value=value,
            resume=resume,
            by=by,
            via=via,
            reason=reason,
            key=key,
            guest=guest,
            digest=digest,
            ignore_claim=ignore_claim,
            skip_permission_checks=skip_permission_checks,
        )

    def validate(self, interrupt: Interrupt) -> ValidatedDecision:
        """Validate this decision against an interrupt that was read from the database.

        Validation takes most of the time of a decision, so it precedes the transaction and all
        locks. If the decision isn't valid, the error is not raised but returned in ``refusal``. The
        caller raises the error after the permission check, because a user without permission must
        not see the error.
        """
        read = self
        made = partial(
            ValidatedDecision, digest=interrupt.payload_digest, version=interrupt.version
        )
        try:
            options = answers.read_options(interrupt)
            with schema_keywords.limit_work():
                read = self._infer_type(options)
                answer = read._build_resume_value(options)
                proposal = read._build_proposal(options, answer) if interrupt.quorum > 1 else None
            patch = answers.make_decision_patch(options, read.type, read.value)
            return made(
                request=read,
                answer=answer,
                shown=options.mask_answer(answer),
                patch=options.mask_patch(patch),
                proposal=proposal,
            )
        except HitlError as error:
            return made(request=read, refusal=error)

    def _infer_type(self, options: AnswerOptions) -> DecisionRequest:
        """Return the request with the type and value of the decision that results in ``resume``."""
        if self.resume is UNSET:
            return self
        inferred = answers.infer_decision(options, self.resume)
        resume = options.rules.normalize_resume(options, self.resume)
        return replace(self, type=inferred.type, value=inferred.value, resume=resume)

    def _build_resume_value(self, options: AnswerOptions) -> Any:
        if self.resume is not UNSET:
            return self.resume
        value = answers.add_reason(options, self.type, self.value, self.reason)
        return answers.make_resume_value(options, self.type, value)

    def _build_proposal(self, options: AnswerOptions, answer: Any) -> dict[str, Any] | None:
        """Return the proposal that this decision creates for approval.

        Return None if the decision approves the current version, or needs no approvals.
        """
        if not needs_agreement(self.type) or quorum.is_seconded(options, answer):
            return None
        return answers.make_proposal(options, self.type, self.value, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedDecision:
    """The result of validating a request against one version of an interrupt.

    Attributes:
        request: the request with the inferred type and value. The type is empty if it can't be
            inferred.
        answer: the resume value.
        shown: the resume value without secrets, stored with the decision.
        patch: the reviewer's changes to the payload as a JSON Patch, without secrets, stored with
            the decision. None for a decision without an edit.
        proposal: the proposed value with secrets, because the graph receives it after enough
            approvals.
        refusal: the validation error, or None.
    """

    digest: str
    version: int
    request: DecisionRequest
    answer: Any = UNSET
    shown: Any = UNSET
    patch: list[dict[str, Any]] | None = None
    proposal: dict[str, Any] | None = None
    refusal: HitlError | None = None

    @property
    def is_approval(self) -> bool:
        """Whether the request is one of several approvals needed for the current version."""
        return needs_agreement(self.request.type) and self.proposal is None

    def fits(self, interrupt: Interrupt) -> bool:
        """Return whether the interrupt hasn't changed since the validation."""
        return (self.digest, self.version) == (interrupt.payload_digest, interrupt.version)

    def raise_refusal(self) -> None:
        """Raise the error that the validation found, if any."""
        if self.refusal is not None:
            raise self.refusal


class ConcurrentChangeError(Exception):
    """Raised if an interrupt, its run or its thread has changed since it was read."""


class ChangedRowError(ConcurrentChangeError):
    """Raised if a concurrent change is found while the decision is written."""


def record(
    interrupt: Interrupt,
    validated: ValidatedDecision,
    thread: Thread,
    so_far: AnswersRow | None = None,
) -> Decision:
    """Store a validated decision on an interrupt, in one batch.

    A decision that needs no approvals, such as a rejection, closes the interrupt, and so does the
    last approval needed. Any other decision is stored as an approval of this version, or proposes
    another version. In these two cases, the caller must have locked the thread. ``so_far`` are the
    responses of the task, if they were read with the interrupt.

    Raises:
        AlreadyApprovedError: if the user has approved this version.
        ChangedRowError: if a row has changed since it was read.
    """
    request = validated.request
    decision = _build_decision(interrupt, validated, thread)
    if interrupt.quorum == 1:
        return _close(interrupt, decision, validated, thread, so_far)
    if not needs_agreement(request.type):
        decision.approvals = interrupt.approvals
        return _close(interrupt, decision, validated, thread, so_far)
    if validated.proposal is not None:
        return _propose(interrupt, validated, decision, thread)
    quorum.refuse_second_approval(interrupt, request.by)
    decision.approvals = interrupt.approvals + 1
    if decision.approvals >= interrupt.quorum:
        return _close(interrupt, decision, validated, thread, so_far)
    return _leave_open(interrupt, decision, request, thread, approvals=F("approvals") + 1)


def _close(
    interrupt: Interrupt,
    decision: Decision,
    validated: ValidatedDecision,
    thread: Thread,
    so_far: AnswersRow | None,
) -> Decision:
    request = validated.request
    batch = WriteBatch(write_alias())
    # Each change of a thread's interrupts adds an audit log entry, so an unchanged ``audit_seq``
    # proves that the responses are current. All transactions lock the thread first, to avoid
    # deadlocks.
    as_read = {"thread": thread.pk, "seq": thread.audit_seq}
    batch.lock_ahead(queries.LOCK_UNCHANGED, as_read, ChangedRowError)
    # If callers compete, only one UPDATE matches. With a read and a later write, two reviewers
    # could both succeed under READ COMMITTED, and SQLite has no row locks. Zero rows: another
    # decision was committed first.
    as_seen = {
        "interrupt": interrupt.pk,
        "version": interrupt.version,
        "approvals": interrupt.approvals,
    }
    # If the run is already QUEUED or RUNNING because of another interrupt, its state doesn't
    # change: the worker finds this response among the pending writes, or queues the run again at
    # its next pause. Zero rows: the run was changed manually, because all other changes wait for
    # the thread's lock.
    is_waiting = interrupt.run.state == Run.State.INTERRUPTED and resumption.resumes_run(interrupt)
    by_person = request.by is not None or request.guest is not None
    undoable = resumption.waits_for_undo(interrupt.run, by_person=by_person)
    if undoable:
        decision.undo_epoch = thread.epoch
    # Update the run before the interrupt. A run that is queued without a response pauses again, but
    # an interrupt that is closed without a response would stay closed.
    if is_waiting and undoable:
        at = interrupt.run.resumes_at = resumption.resumption_time(interrupt.run, thread)
        later = {"run": interrupt.run_id, "at": at}
        batch.guard(queries.RESUME_LATER, later, ChangedRowError)
    elif is_waiting:
        last_event = run_events.append_queued(batch, interrupt.run, "answered")
        resumed = {"run": interrupt.run_id, "last_event": last_event}
        batch.guard(queries.RESUME, resumed, ChangedRowError)
    batch.guard(queries.CLOSE, as_seen, ChangedRowError)
    batch.insert(queries.NEW_DECISION, [queries.NEW_DECISION.values_of(decision)])
    _append_entry("decide", decision, thread, request, batch)
    _publish(decision, interrupt, thread, batch)
    saver = DjangoSaver(ThreadKey(thread.pk, thread.thread_id, thread.epoch))
    saver.put_answer(interrupt, validated.answer, batch, so_far)
    if is_waiting and not undoable:
        dispatcher.enqueue(interrupt.run_id, batch)
    if connections[batch.using].in_atomic_block:
        batch.run()
    else:
        batch.commit()
    return decision


def _propose(
    interrupt: Interrupt, validated: ValidatedDecision, decision: Decision, thread: Thread
) -> Decision:
    """Store a decision that proposes a new version and is its first approval.

    The new digest covers the payload and the proposal, so nobody can approve a version that they
    haven't seen.
    """
    # Digest the value without secrets, because the digest is public and would reveal a short
    # secret.
    digest = digest_json([interrupt.payload, validated.shown])
    decision.version, decision.payload_digest = interrupt.version + 1, digest
    decision.approvals = 1
    changes = {"proposal": validated.proposal, "payload_digest": digest, "approvals": 1}
    return _leave_open(
        interrupt, decision, validated.request, thread, version=F("version") + 1, **changes
    )


def _leave_open(
    interrupt: Interrupt,
    decision: Decision,
    request: DecisionRequest,
    thread: Thread,
    **changes: Any,
) -> Decision:
    """Store an approval and the given ``changes`` of the interrupt, which stays pending."""
    rows = Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
    as_seen = rows.filter(
        status=Interrupt.Status.PENDING, version=interrupt.version, approvals=interrupt.approvals
    )
    # Each concurrent approval has to count the earlier ones. Zero rows: another user has approved,
    # proposed a version or decided.
    if not as_seen.update(**changes):
        raise ChangedRowError
    decision.effective = None
    batch = WriteBatch(write_alias())
    batch.insert(queries.NEW_DECISION, [queries.NEW_DECISION.values_of(decision)])
    _append_entry("approve", decision, thread, request, batch)
    batch.run()
    if request.by is not None:
        # The user has approved, so end the user's claim to let another person claim the interrupt.
        rows.filter(claimed_by=request.by).update(**get_cleared_claim())
        rows.filter(assignee=request.by).update(assignee=None, assignee_label="")
    return decision


def _build_decision(interrupt: Interrupt, validated: ValidatedDecision, thread: Thread) -> Decision:
    request = validated.request
    return queries.DECISION.new(
        interrupt_id=interrupt.pk,
        version=interrupt.version,
        type=request.type,
        value=validated.shown,
        patch=validated.patch,
        quorum=interrupt.quorum,
        reason=request.reason,
        by_id=None if request.by is None else request.by.pk,
        by_label=audit.label_user(request.by) if request.guest is None else request.guest.label,
        via=request.via,
        claimed_by_label=_find_other_claimant(interrupt, thread, request),
        key=request.key,
        request_digest=request.digest,
        payload_digest=interrupt.payload_digest,
        created_at=thread.now,
    )


def _find_other_claimant(interrupt: Interrupt, thread: Thread, request: DecisionRequest) -> str:
    is_claimed = lookup.is_claimed_by_other(interrupt, thread, request.by)
    return interrupt.claimed_by_label if is_claimed else ""


def _append_entry(
    verb: str,
    decision: Decision,
    thread: Thread,
    request: DecisionRequest,
    batch: WriteBatch,
) -> None:
    agreed = {"approvals": decision.approvals, "quorum": decision.quorum}
    guest = request.guest
    invited = {}
    if guest is not None:
        invited = {"invitation": guest.invitation, "invited_by": guest.invited_by}
    audit.append(
        batch,
        thread,
        verb,
        by=request.by,
        guest="" if guest is None else guest.label,
        via=request.via,
        conflict_error=ChangedRowError,
        subject=str(decision.interrupt_id),
        detail={
            "type": request.type,
            "payload_digest": decision.payload_digest,
            "version": decision.version,
            "answer": digest_json(decision.value),
            "reason": request.reason,
            **(agreed if decision.quorum > 1 else {}),
            **({"claimed_by": decision.claimed_by_label} if decision.claimed_by_label else {}),
            **invited,
        },
    )


def _publish(decision: Decision, interrupt: Interrupt, thread: Thread, batch: WriteBatch) -> None:
    events.publish(
        batch,
        EventName.INTERRUPT_DECIDED,
        interrupt.graph,
        interrupt_id=interrupt.pk,
        digest=interrupt.payload_digest,
        run_id=interrupt.run_id,
        thread_id=thread.thread_id,
        decision=decision,
        decision_id=decision.pk,
    )
