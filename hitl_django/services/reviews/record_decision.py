"""Records a decision: one that closes its question, a vote, or a proposal to vote on."""

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
    """A person without an account: the name, the id of the invitation and the user who gave it."""

    label: str
    invitation: str
    invited_by: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request to decide a question: who, through what, and the digest that a repeat shares.

    ``resume`` is set where they sent what the graph is to receive, instead of a type and a value.
    Unless it goes ``ignore_claim``, it is refused where somebody else holds the question; that is
    no part of the digest, since who confirms it sends the same again.
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
    ) -> Request:
        """Return the request; InvalidAnswerError where its key or its value can't be taken."""
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
        # With a key, since the digest of a short secret would give it away.
        keyed = salted_hmac(__name__, canonical_json(content), algorithm="sha256")
        digest = keyed.hexdigest()[:32]
        return cls(type or "", value, resume, by, via, reason, key, guest, digest, ignore_claim)

    def validate(self, interrupt: Interrupt) -> Validated:
        """Validate it against an open question as it was read: all of the work that takes time.

        Done before the transaction of a decision opens and before anything is locked, so that
        nobody waits for it. What is wrong is kept: who may not decide is not to hear of it.
        """
        read = self
        made = partial(Validated, digest=interrupt.payload_digest, version=interrupt.version)
        try:
            options = answers.read_options(interrupt)
            with schema_keywords.limit_work():
                read = self._read(options)
                answer = read._answer(options)
                proposal = read._proposal(options, answer) if interrupt.quorum > 1 else None
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

    def _read(self, options: AnswerOptions) -> Request:
        """Return it with the type and the value that it comes down to."""
        if self.resume is UNSET:
            return self
        inferred = answers.infer_decision(options, self.resume)
        return replace(self, type=inferred.type, value=inferred.value)

    def _answer(self, options: AnswerOptions) -> Any:
        """Return the resume value of the decision, once it was read."""
        if self.resume is not UNSET:
            return self.resume
        value = answers.add_reason(options, self.type, self.value, self.reason)
        return answers.make_resume_value(options, self.type, value)

    def _proposal(self, options: AnswerOptions, answer: Any) -> dict[str, Any] | None:
        """Return what it puts up for the approval of others, if it is no vote and no rejection."""
        if not needs_agreement(self.type) or quorum.is_seconded(options, answer):
            return None
        return answers.make_proposal(options, self.type, self.value, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """What a request comes to on a question of this digest and version, or why to nothing.

    ``request`` has the type and the value that were read from it; its type is empty where none
    could be. ``answer`` is the resume value. ``shown`` and ``patch`` are stored with the decision
    and have no secrets; ``proposal`` has them, since the graph gets it once enough people approve.
    """

    digest: str
    version: int
    request: Request
    answer: Any = UNSET
    shown: Any = UNSET
    patch: list[dict[str, Any]] | None = None
    proposal: dict[str, Any] | None = None
    refusal: HitlError | None = None

    @property
    def is_vote(self) -> bool:
        """Return whether, of a question for several, it approves the version that there is."""
        return needs_agreement(self.request.type) and self.proposal is None

    def fits(self, interrupt: Interrupt) -> bool:
        """Return whether the question is still the one that it was validated against."""
        return (self.digest, self.version) == (interrupt.payload_digest, interrupt.version)

    def raise_refusal(self) -> None:
        """Raise what is wrong with the request, if anything is."""
        if self.refusal is not None:
            raise self.refusal


class ConcurrentChangeError(Exception):
    """Something was changed of a question, its run or its thread since it was read."""


class ChangedRowError(ConcurrentChangeError):
    """The same, found when the decision was to be written."""


def record(
    interrupt: Interrupt, validated: Validated, thread: Thread, so_far: AnswersRow | None = None
) -> Decision:
    """Record a decision on a question as it was read and validated, in one batch.

    It closes the question if nobody else has to agree, or enough have. Otherwise it is an approval
    of this version, or of another that it proposes; only then its thread has to be locked. Raises
    AlreadyApprovedError, and ChangedRowError where anything has changed since. ``so_far`` are the
    answers of its task, where they were read with the question.
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
    quorum.refuse_second_vote(interrupt, request.by)
    decision.approvals = interrupt.approvals + 1
    if decision.approvals >= interrupt.quorum:
        return _close(interrupt, decision, validated, thread, so_far)
    return _leave_open(interrupt, decision, request, thread, approvals=F("approvals") + 1)


def _close(
    interrupt: Interrupt,
    decision: Decision,
    validated: Validated,
    thread: Thread,
    so_far: AnswersRow | None,
) -> Decision:
    """Close the question, records who did, leaves the answer to its task and queues the run."""
    request = validated.request
    batch = WriteBatch(write_alias())
    # Whatever is done to a thread's questions is added to its record, so a row is no proof of the
    # answers that were read with it only where that has grown. And the thread comes first, as
    # everywhere: who waits for it then holds nothing that somebody else may wait for.
    as_read = {"thread": thread.pk, "seq": thread.audit_seq}
    batch.lock_ahead(queries.LOCK_UNCHANGED, as_read, ChangedRowError)
    # The predicate is the whole guarantee: of any number of concurrent callers one UPDATE matches.
    # Reading first and saving later would let two reviewers win under READ COMMITTED, and the
    # thread's lock doesn't exist on SQLite. Zero rows: somebody else won meanwhile.
    as_seen = {
        "interrupt": interrupt.pk,
        "version": interrupt.version,
        "approvals": interrupt.approvals,
    }
    # A run that is QUEUED or RUNNING already, because another of its questions was answered, stays
    # so: whoever advances it finds this answer among the pending writes, or at its pause finds the
    # question decided and queues the run again. Zero rows: somebody changed the run by hand, as
    # everybody else waits for the thread's lock to do so.
    waits = interrupt.run.state == Run.State.INTERRUPTED and resumption.resumes_run(interrupt)
    by_person = request.by is not None or request.guest is not None
    undoable = resumption.waits_for_undo(interrupt.run, by_person=by_person)
    if undoable:
        decision.undo_epoch = thread.epoch
    # The run comes before the question: a run that is queued for nothing pauses again, but a
    # question closed for nothing would stay so.
    if waits and undoable:
        at = interrupt.run.resumes_at = resumption.resumption_time(interrupt.run, thread)
        later = {"run": interrupt.run_id, "at": at}
        batch.guard(queries.RESUME_LATER, later, ChangedRowError)
    elif waits:
        last_event = run_events.append_queued(batch, interrupt.run, "answered")
        goes_on = {"run": interrupt.run_id, "last_event": last_event}
        batch.guard(queries.RESUME, goes_on, ChangedRowError)
    batch.guard(queries.CLOSE, as_seen, ChangedRowError)
    batch.insert(queries.NEW_DECISION, [queries.NEW_DECISION.values_of(decision)])
    _append_entry("decide", decision, thread, request, batch)
    _publish(decision, interrupt, thread, batch)
    saver = DjangoSaver(ThreadKey(thread.pk, thread.thread_id, thread.epoch))
    saver.put_answer(interrupt, validated.answer, batch, so_far)
    if waits and not undoable:
        dispatcher.enqueue(interrupt.run_id, batch)
    if connections[batch.using].in_atomic_block:
        batch.run()
    else:
        batch.commit()
    return decision


def _propose(
    interrupt: Interrupt, validated: Validated, decision: Decision, thread: Thread
) -> Decision:
    """Put another answer up for approval: nobody but who proposes it has agreed to that one.

    Its digest names what was asked together with what is proposed, so that whoever saw one
    version approves no other.
    """
    # The digest is public. One over a short secret would give the secret away.
    digest = digest_json([interrupt.payload, validated.shown])
    decision.version, decision.payload_digest = interrupt.version + 1, digest
    decision.approvals = 1
    changes = {"proposal": validated.proposal, "payload_digest": digest, "approvals": 1}
    return _leave_open(
        interrupt, decision, validated.request, thread, version=F("version") + 1, **changes
    )


def _leave_open(
    interrupt: Interrupt, decision: Decision, request: Request, thread: Thread, **changes: Any
) -> Decision:
    """Count an approval with these changes of the question's row, and leave it to others."""
    rows = Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
    as_seen = rows.filter(
        status=Interrupt.Status.PENDING, version=interrupt.version, approvals=interrupt.approvals
    )
    # As for the last of them: of approvals that come at once, each counts the ones before it. Zero
    # rows: somebody has approved, proposed something else or decided meanwhile.
    if not as_seen.update(**changes):
        raise ChangedRowError
    decision.effective = None
    batch = WriteBatch(write_alias())
    batch.insert(queries.NEW_DECISION, [queries.NEW_DECISION.values_of(decision)])
    _append_entry("vote", decision, thread, request, batch)
    batch.run()
    if request.by is not None:
        # Who has agreed is done with it; somebody else's turn has come.
        rows.filter(claimed_by=request.by).update(**get_cleared_claim())
        rows.filter(assignee=request.by).update(assignee=None, assignee_label="")
    return decision


def _build_decision(interrupt: Interrupt, validated: Validated, thread: Thread) -> Decision:
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
        claimed_by_label=_holder(interrupt, thread, request),
        key=request.key,
        request_digest=request.digest,
        payload_digest=interrupt.payload_digest,
        created_at=thread.now,
    )


def _holder(interrupt: Interrupt, thread: Thread, request: Request) -> str:
    held = lookup.is_claimed_by_other(interrupt, thread, request.by)
    return interrupt.claimed_by_label if held else ""


def _append_entry(
    verb: str,
    decision: Decision,
    thread: Thread,
    request: Request,
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
        overtaken=ChangedRowError,
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
