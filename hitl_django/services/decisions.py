"""decide: one question, one decision, whoever and however many try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from hitl_django import answers, audit, dispatch, events, leases, outbox, signals
from hitl_django.answers import UNSET
from hitl_django.engine.errors import (
    AlreadyDecidedError,
    IdempotencyKeyReusedError,
    InterruptNotFound,
    InvalidAnswerError,
    NotAllowedError,
    RunStateError,
    StaleQuestionError,
)
from hitl_django.models import Decision, Delivery, Interrupt, Run, Thread
from hitl_django.models.fields import digest_json
from hitl_django.policy import get_policy
from hitl_django.saver import DjangoSaver, ThreadKey, Writing
from hitl_django.text import storable

from . import refusals, statements
from .info import DecisionInfo

KEY_LENGTH = 255


def decide(
    interrupt_id: UUID | str,
    type: str,  # noqa: A002  (the word of the API)
    value: Any = UNSET,
    *,
    by: Any = None,
    via: str = "code",
    reason: str = "",
    key: str = "",
    digest: str | None = None,
    version: int | None = None,
) -> DecisionInfo:
    """Records what a person did with an open question, and makes its run ready to go on.

    Exactly one caller wins; every other gets AlreadyDecidedError, which says who did. A repeat of
    the winning request with the same ``key`` by the same user gets the first outcome back, with
    ``repeated`` set; the same key with another request is an IdempotencyKeyReusedError. ``digest``
    and ``version`` are those of the question as it was shown: StaleQuestionError if it has changed
    since. Nothing is written unless everything is: decision, audit entry, resume value and the
    run's state share one transaction.
    """
    request = _Request.of(type, value, by=by, via=via, reason=reason, key=key)
    refusal = refusals.recorded("decide", by=by, via=via)
    with refusal, transaction.atomic(using=dispatch.alias()):
        thread, interrupt = _locked(interrupt_id, by)
        earlier = _earlier_outcome(interrupt, request)
        if earlier is not None:
            return earlier
        if interrupt.status != Interrupt.Status.PENDING:
            raise _already(interrupt, _decision(interrupt))
        _refuse_if_stale(interrupt, digest, version)
        _refuse_if_unheard(interrupt)
        asked = answers.asked_of(interrupt)
        value = answers.said(asked, type, value, request.reason)
        answer = answers.compose(asked, type, value)
        patch = answers.changes_of(asked, type, value)
        decision = _record(interrupt, answer, patch, request, thread)
        info = DecisionInfo.of(decision, interrupt.run_id)
        signals.send_on_commit(signals.interrupt_decided, using=dispatch.alias(), decision=info)
        return info


def check_answer(
    interrupt_id: UUID | str,
    type: str,  # noqa: A002
    value: Any = UNSET,
    *,
    by: Any = None,
    reason: str = "",
) -> Any:
    """Returns the resume value that ``decide`` would record; records nothing."""
    interrupt = _visible(_uuid(interrupt_id), by)
    _refuse_if_not_allowed(interrupt, by)
    if interrupt.status != Interrupt.Status.PENDING:
        raise _already(interrupt, _decision(interrupt))
    asked = answers.asked_of(interrupt)
    return answers.compose(asked, type, answers.said(asked, type, value, reason))


@dataclass(frozen=True, slots=True)
class _Request:
    type: str
    by: Any
    via: str
    reason: str
    key: str
    digest: str

    @classmethod
    def of(
        cls,
        type: str,  # noqa: A002
        value: Any,
        *,
        by: Any,
        via: str,
        reason: str,
        key: str,
    ) -> _Request:
        if key and (len(key) > KEY_LENGTH or not key.isprintable()):
            raise InvalidAnswerError(
                f"The key is not 1 to {KEY_LENGTH} printable characters.", [("", "bad key")]
            )
        reason = storable(reason)
        content: dict[str, Any] = {"type": str(type), "reason": reason}
        if value is not UNSET:
            answers.check_limits(value)
            content["value"] = value
        return cls(type, by, via, reason, key, digest_json(content))


def _locked(interrupt_id: UUID | str, by: Any) -> tuple[Thread, Interrupt]:
    """Returns the locked thread and the question, if the user may decide it.

    Everything that follows sees the question as nobody else can change it any more, so a loser's
    message tells the truth. The lock is not what makes one decision win: ``_close`` is.
    """
    pk = _uuid(interrupt_id)
    try:
        thread = leases.lock_thread(interrupt=pk)
    except Thread.DoesNotExist:
        raise InterruptNotFound from None
    if by is not None:
        found = Interrupt.objects.using(dispatch.alias()).filter(pk=pk)
        if not get_policy().visible_interrupts(by, found).exists():
            raise InterruptNotFound
    interrupt = _question(pk, thread)
    _refuse_if_not_allowed(interrupt, by)
    return thread, interrupt


def _question(pk: UUID, thread: Thread) -> Interrupt:
    """Reads a question of a locked thread, with its run."""
    using = dispatch.alias()
    [row] = statements.QUESTION.run(using, interrupt=pk)
    interrupt = statements.INTERRUPT.read(using, row)
    run = statements.RUN.read(using, row[len(statements.INTERRUPT.names) :])
    interrupt.thread = run.thread = thread
    interrupt.run = run
    return interrupt


def _interrupts() -> Any:
    return Interrupt.objects.using(dispatch.alias()).select_related("run", "thread")


def _visible(pk: UUID, by: Any) -> Interrupt:
    found = _interrupts().filter(pk=pk)
    if by is not None:
        found = get_policy().visible_interrupts(by, found)
    interrupt: Interrupt | None = found.first()
    if interrupt is None:
        raise InterruptNotFound
    return interrupt


def _refuse_if_not_allowed(interrupt: Interrupt, by: Any) -> None:
    if by is not None and not get_policy().may_decide(by, interrupt):
        raise NotAllowedError(
            "You may not decide this question.",
            thread_id=interrupt.thread.thread_id,
            subject=str(interrupt.pk),
        )


def _earlier_outcome(interrupt: Interrupt, request: _Request) -> DecisionInfo | None:
    """Returns the first outcome of a request that was made before, whatever came of it since."""
    if not request.key or interrupt.version == 1:  # of the first version nothing was decided yet
        return None
    decisions = Decision.objects.using(dispatch.alias()).filter(interrupt=interrupt)
    decision = decisions.filter(key=request.key, by=request.by).order_by("version").first()
    if decision is None:
        return None
    if decision.request_digest != request.digest:
        raise IdempotencyKeyReusedError(
            f"The key {request.key!r} was used on this question with another decision."
        )
    return DecisionInfo.of(decision, interrupt.run_id, repeated=True)


def _decision(interrupt: Interrupt) -> Decision | None:
    """Returns the decision that closed the question; an earlier one may have been refused."""
    decisions = Decision.objects.using(dispatch.alias()).filter(interrupt=interrupt)
    return decisions.filter(version=interrupt.version - 1, effective=True).first()


def _already(interrupt: Interrupt, decision: Decision | None) -> AlreadyDecidedError:
    info = None
    message = f"The question is no longer open: it is {interrupt.get_status_display()}."
    if interrupt.status == Interrupt.Status.EXPIRED:
        message = "The question expired before. Nothing of yours was recorded."
    elif decision is not None:
        message = (
            f"The question was already decided: {decision.type} by {decision.by_label} at "
            f"{decision.created_at:%Y-%m-%d %H:%M:%S}. Nothing of yours was recorded."
        )
    if decision is not None:
        info = DecisionInfo.of(decision, interrupt.run_id)
    return AlreadyDecidedError(message, status=str(interrupt.status), decision=info)


def _refuse_if_stale(interrupt: Interrupt, digest: str | None, version: int | None) -> None:
    if digest is not None and digest != interrupt.payload_digest:
        raise StaleQuestionError
    if version is not None and version != interrupt.version:
        raise StaleQuestionError


def _refuse_if_unheard(interrupt: Interrupt) -> None:
    if interrupt.run.state not in Run.ANSWERABLE:
        raise _unheard(interrupt.run)


def _unheard(run: Run) -> RunStateError:
    return RunStateError(
        f"The run is {run.state}; the question can be decided once it goes on.",
        state=str(run.state),
        allowed=Run.ANSWERABLE,
    )


def _record(
    interrupt: Interrupt,
    answer: Any,
    patch: list[dict[str, Any]] | None,
    request: _Request,
    thread: Thread,
) -> Decision:
    """Closes the question, records who did, leaves the answer to its task and queues the run."""
    writing = Writing(dispatch.alias())
    # The status predicate is the whole guarantee: of any number of concurrent callers one UPDATE
    # matches. Reading first and saving later would let two reviewers win under READ COMMITTED,
    # and the thread's lock doesn't exist on SQLite. Zero rows: somebody else won meanwhile.
    shown = {"interrupt": interrupt.pk, "version": interrupt.version}
    writing.require(statements.CLOSE, shown)
    # A run that is QUEUED or RUNNING already, because another of its questions was answered, stays
    # so: whoever advances it finds this answer among the pending writes, or at its pause finds the
    # question decided and queues the run again. Zero rows: somebody changed the run by hand, as
    # everybody else waits for the thread's lock to do so.
    waits = interrupt.run.state == Run.State.INTERRUPTED
    if waits:
        last_event = events.queued(interrupt.run, writing, "answered")
        goes_on = {"run": interrupt.run_id, "last_event": last_event}
        writing.require(statements.RESUME, goes_on)
    decision = _decided(interrupt, answer, patch, request, thread)
    writing.insert(statements.NEW_DECISION, [statements.NEW_DECISION.values_of(decision)])
    _note(decision, thread, request, writing)
    _tell(decision, interrupt, thread, writing)
    saver = DjangoSaver(ThreadKey(thread.pk, thread.thread_id, thread.epoch))
    saver.put_answer(interrupt, answer, writing)
    held = writing.run()
    if not held:
        interrupt.refresh_from_db(dispatch.alias())
        if interrupt.status == Interrupt.Status.PENDING:
            raise StaleQuestionError
        raise _already(interrupt, _decision(interrupt))
    if waits and len(held) == 1:
        interrupt.run.refresh_from_db(dispatch.alias(), fields=["state"])
        raise _unheard(interrupt.run)
    if waits:
        dispatch.hint(interrupt.run_id)
    return decision


def _decided(
    interrupt: Interrupt,
    answer: Any,
    patch: list[dict[str, Any]] | None,
    request: _Request,
    thread: Thread,
) -> Decision:
    return Decision(
        interrupt=interrupt,
        version=interrupt.version,
        type=request.type,
        value=answer,
        patch=patch,
        reason=request.reason,
        by=request.by,
        by_label=audit.label(request.by),
        via=request.via,
        key=request.key,
        request_digest=request.digest,
        payload_digest=interrupt.payload_digest,
        created_at=thread.now,
    )


def _note(decision: Decision, thread: Thread, request: _Request, writing: Writing) -> None:
    audit.append(
        thread,
        "decide",
        by=request.by,
        via=request.via,
        subject=str(decision.interrupt_id),
        detail={
            "type": request.type,
            "question": decision.payload_digest,
            "version": decision.version,
            "answer": digest_json(decision.value),
            "reason": request.reason,
        },
        writing=writing,
    )


def _tell(decision: Decision, interrupt: Interrupt, thread: Thread, writing: Writing) -> None:
    outbox.tell(
        writing,
        Delivery.Event.INTERRUPT_DECIDED,
        interrupt.graph,
        interrupt_id=interrupt.pk,
        digest=interrupt.payload_digest,
        run_id=interrupt.run_id,
        thread_id=thread.thread_id,
        decision_id=decision.pk,
    )


def _uuid(value: UUID | str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InterruptNotFound from None
