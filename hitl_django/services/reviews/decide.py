"""Decisions on interrupts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import is_dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction

from hitl_django import signals
from hitl_django.checkpoints.queries import AnswersRow
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.decision_types import DecisionName
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import HitlError
from hitl_django.engine.state.schema import convert_to_json, is_model
from hitl_django.errors import (
    IdempotencyKeyReusedError,
    InterruptNotFound,
    StaleInterruptError,
)
from hitl_django.graph_registry import registry
from hitl_django.leases.queries import THREAD
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.permissions import (
    check_ids,
    find_row,
    get_policy,
    refuse_unless_may,
    select_visible,
)

from .. import denied_log, queries
from ..results import DecisionInfo
from . import lookup, quorum, record_decision, resumption
from .record_decision import DecisionRequest, Guest, ValidatedDecision

#: Maximum number of times that an interrupt is read again because it changed during the validation
#: of a value.
MAX_READS = 5


def decide(
    interrupt_id: UUID | str,
    type: DecisionName | None = None,  # noqa: A002  (the word of the API)
    value: Any = UNSET,
    *,
    resume: Any = UNSET,
    by: Any = None,
    via: str = "code",
    reason: str = "",
    key: str = "",
    digest: str | None = None,
    version: int | None = None,
    guest: Guest | None = None,
    ignore_claim: bool = True,
    skip_permission_checks: bool = False,
) -> DecisionInfo:
    """Store a decision on a pending interrupt, and queue its run.

    Exactly one of several concurrent callers succeeds. If the same user repeats the successful
    call with the same ``key``, the function returns the first decision with ``repeated`` set.
    ``digest`` and ``version`` are those of the interrupt as it was displayed. ``guest`` is a person
    who decides without an account. The decision, the audit log entry, the resume value and the
    run's state are stored in one transaction. The value is validated before the transaction, and
    again if the interrupt changes in the meantime.

    If several approvals are needed, the interrupt stays pending until the last approval. Earlier
    approvals have ``complete=False``. An approval counts for the version that was approved. An
    approval with another value proposes that value as a new version and is the first approval of
    the new version. A rejection closes the interrupt immediately.

    ``value`` is JSON, or an instance of a pydantic model or a dataclass, such as the class of the
    response schema.

    ``resume`` is a resume value, given instead of type and value. The type and value of the
    decision are derived from the resume value.

    If the interrupt requires a claim, only the user with the claim may decide. Otherwise, another
    user's claim doesn't prevent a decision, and the name of the user with the claim is stored with
    the decision. With ``ignore_claim=False``, another user's claim raises a ClaimedError, so that
    the caller can ask for confirmation.

    Set ``skip_permission_checks`` only in views of your project that have checked the permission,
    as for ``start``. Rules of the interrupt still apply to ``by``: claims, approvals by different
    people, and approvals of runs that the user started.

    Raises:
        AlreadyDecidedError: if the interrupt is not pending. The error contains the decision.
        AlreadyApprovedError: if the same user has approved this version.
        ClaimRequiredError: if the interrupt requires a claim and nobody has claimed it.
        ClaimedError: if another user has claimed the interrupt, as described above.
        IdempotencyKeyReusedError: if the key was used with other arguments.
        InterruptNotFound: if the interrupt doesn't exist or the user may not see it.
        InvalidAnswerError: if the value is not valid, or no decision results in the value
            ``resume``.
        NotAllowedError: if the user may not decide the interrupt.
        RunStateError: if the run can't be resumed in its current state.
        StaleInterruptError: if the interrupt differs from ``digest`` or ``version``.
    """
    request = DecisionRequest.build(
        type,
        _convert_instance(value),
        resume=resume,
        by=by,
        via=via,
        reason=reason,
        key=key,
        guest=guest,
        ignore_claim=ignore_claim,
        skip_permission_checks=skip_permission_checks,
    )
    pk, shown = lookup.parse_id(interrupt_id), _Shown(digest, version)
    with denied_log.record_denial("decide", by=by, via=via):
        for _ in range(MAX_READS):
            with suppress(record_decision.ConcurrentChangeError):
                return _decide_as_read(pk, request, shown)
        raise StaleInterruptError


def _convert_instance(value: Any) -> Any:
    if is_model(type(value)) or (is_dataclass(value) and not isinstance(value, type)):
        return convert_to_json(value)
    return value


class _Shown(NamedTuple):
    """The digest and version of the interrupt as it was displayed, or None if not given."""

    digest: str | None
    version: int | None


@retry_on_conflict
def _decide_as_read(pk: UUID, request: DecisionRequest, shown: _Shown) -> DecisionInfo:
    """Read an interrupt's row, and decide the interrupt.

    ``decide`` calls this function again after a ConcurrentChangeError.

    Raises:
        ConcurrentChangeError: if the interrupt has changed since it was validated.
    """
    using = write_alias()
    found = _read(pk)
    validated = validate(found.interrupt, request)
    if validated is not None and _needs_no_lock(found.interrupt):
        # The user's permissions must be read in the transaction that depends on them. Without a
        # user, the batch opens its own transaction.
        alone = request.by is None and not connections[using].in_atomic_block
        with (
            suppress(record_decision.ConcurrentChangeError),
            nullcontext() if alone else transaction.atomic(using=using),
        ):
            return _decide(found, request, validated, shown)
    with transaction.atomic(using=using):
        lookup.lock_thread(pk)
        found = _read(pk)
        try:
            return _decide(found, request, validated, shown)
        except record_decision.ChangedRowError:
            raise lookup.changed_error(found.interrupt) from None


def validate(interrupt: Interrupt, request: DecisionRequest) -> ValidatedDecision | None:
    """Validate a decision before locking any row.

    Returns None if the interrupt is closed.
    """
    if interrupt.status != Interrupt.Status.PENDING:
        return None  # The thread was erased, so the interrupt has no payload.
    return request.validate(interrupt)


def _needs_no_lock(interrupt: Interrupt) -> bool:
    """Return whether an interrupt may be decided without locking its thread.

    The thread must be locked in these cases: the interrupt needs several approvals, requires a
    claim, or has changed since its first version; the run isn't interrupted; the run resumes only
    after all of its interrupts are decided; or the decision can be undone, and therefore stores the
    thread's epoch. Without the lock, a decision is written only if the interrupt, the run and the
    thread's audit log are unchanged.
    """
    return (
        interrupt.version == 1
        and interrupt.quorum == 1
        and not interrupt.claim_required
        and interrupt.run.state == Run.State.INTERRUPTED
        and not resumption.waits_for_undo(interrupt.run, by_person=True)
        and registry.get_review_policy(interrupt.graph).resume_on == "each"
    )


def _decide(
    found: _Found, request: DecisionRequest, validated: ValidatedDecision | None, shown: _Shown
) -> DecisionInfo:
    """Decide an interrupt that was read with or without a lock on its thread.

    Raises:
        ConcurrentChangeError: if the interrupt differs from the validated version, or has changed
            since it was read. In this case, nothing is written.
    """
    interrupt = found.interrupt
    _refuse_unless_visible(interrupt, request.checked_user)
    _refuse_if_not_allowed(interrupt, request.checked_user)
    earlier = _earlier_outcome(interrupt, request)
    if earlier is not None:
        return earlier
    if interrupt.status != Interrupt.Status.PENDING:
        raise lookup.already_decided_error(interrupt)
    _refuse_if_stale(interrupt, shown.digest, shown.version)
    return _record(found.thread, interrupt, validated, found.so_far)


def record_validated(
    thread: Thread, interrupt: Interrupt, validated: ValidatedDecision | None
) -> DecisionInfo:
    """Store a decision on a pending interrupt of a locked thread.

    Raises:
        StaleInterruptError: if another version of the interrupt was validated.
    """
    try:
        return _record(thread, interrupt, validated)
    except record_decision.ConcurrentChangeError:
        raise lookup.changed_error(interrupt) from None


def _record(
    thread: Thread,
    interrupt: Interrupt,
    validated: ValidatedDecision | None,
    so_far: AnswersRow | None = None,
) -> DecisionInfo:
    """Store a decision, or raise an error if a check fails.

    ``so_far`` are the responses that the task has received, if already read. Checks of the run and
    of other users' decisions precede checks of the value.
    """
    if validated is None or not validated.fits(interrupt):
        raise record_decision.ConcurrentChangeError
    request = validated.request
    _raise_if_run_stopped(interrupt)
    if request.type:
        quorum.refuse_own(interrupt, request.type, request.by)
    quorum.refuse_unless_claimed(interrupt, thread, request.by)
    validated.raise_refusal()
    if not request.ignore_claim:
        # This check is last, so that a user who is asked to confirm has no other errors to correct.
        lookup.raise_if_claimed(interrupt, thread, request.by)
    decision = record_decision.record(interrupt, validated, thread, so_far)
    info = DecisionInfo.from_row(decision, interrupt.run_id)
    if info.complete:
        signals.send_on_commit(signals.interrupt_decided, using=write_alias(), decision=info)
    return info


def check_answer(
    interrupt_id: UUID | str,
    type: str | None = None,  # noqa: A002
    value: Any = UNSET,
    *,
    resume: Any = UNSET,
    by: Any = None,
    reason: str = "",
) -> Any:
    """Return the resume value that ``decide`` would store, without storing a decision.

    Raises the same errors as ``decide``, except for errors about claims, because the user can still
    claim the interrupt.
    """
    request = DecisionRequest.build(
        type, value, resume=resume, by=by, via="", reason=reason, key=""
    )
    rows = select_visible(lookup.rows_with_run(), by)
    interrupt = find_row(rows, InterruptNotFound, pk=interrupt_id)
    return _checked(interrupt, request, by)


def find_refusals(
    interrupt_ids: Iterable[UUID],
    type: str,  # noqa: A002
    *,
    by: Any = None,
) -> dict[UUID, HitlError]:
    """Return an error for each interrupt that can't be decided with this type, by interrupt id.

    Makes the same checks as ``check_answer``, with one query for all interrupts.
    """
    request = DecisionRequest.build(type, UNSET, by=by, via="", reason="", key="")
    wanted = list(check_ids("interrupt_ids", interrupt_ids))
    refused: dict[UUID, HitlError] = dict.fromkeys(wanted, InterruptNotFound())
    rows = select_visible(lookup.rows_with_run().filter(pk__in=wanted), by)
    for interrupt in rows.iterator(chunk_size=20):  # payloads may be large
        del refused[interrupt.pk]
        try:
            _checked(interrupt, request, by)
        except HitlError as error:
            refused[interrupt.pk] = error
    return refused


def _checked(interrupt: Interrupt, request: DecisionRequest, by: Any) -> Any:
    _refuse_if_not_allowed(interrupt, by)
    if interrupt.status != Interrupt.Status.PENDING:
        raise lookup.already_decided_error(interrupt)
    _raise_if_run_stopped(interrupt)
    validated = request.validate(interrupt)
    if validated.request.type:
        quorum.refuse_own(interrupt, validated.request.type, by)
    validated.raise_refusal()
    if interrupt.quorum > 1 and validated.is_approval:
        quorum.refuse_second_approval(interrupt, by)
    return validated.shown


def _refuse_unless_visible(interrupt: Interrupt, by: Any) -> None:
    if by is None:
        return
    every = Interrupt.objects.using(write_alias())
    visible = select_visible(every, by)
    # No query is needed for a user who may see all interrupts.
    if visible is not every and not visible.filter(pk=interrupt.pk).exists():
        raise InterruptNotFound


class _Found(NamedTuple):
    """An interrupt with its thread, its run, and the responses that its task has received."""

    thread: Thread
    interrupt: Interrupt
    so_far: AnswersRow


def _read(pk: UUID) -> _Found:
    """Read the current state of an interrupt with its run, thread and responses.

    If the thread is locked, no other transaction can change the interrupt, so error messages are
    accurate. If several callers compete without a lock, the UPDATE that closes the interrupt
    succeeds for only one of them.
    """
    using = write_alias()
    rows = queries.QUESTION.run(using, interrupt=pk)
    if not rows:
        raise InterruptNotFound
    row = rows[0]
    interrupt = queries.INTERRUPT.read(using, row)
    row = row[len(queries.INTERRUPT.names) :]
    interrupt.run = queries.INTERRUPTED_RUN.read(using, row)
    thread = THREAD.read(using, row[len(queries.INTERRUPTED_RUN.names) : -2])
    interrupt.thread = interrupt.run.thread = thread
    return _Found(thread, interrupt, AnswersRow(*row[-2:]))


def _refuse_if_not_allowed(interrupt: Interrupt, by: Any) -> None:
    refuse_unless_may(
        by,
        get_policy().may_decide,
        interrupt,
        "You don't have permission to decide this interrupt.",
    )


def _earlier_outcome(interrupt: Interrupt, request: DecisionRequest) -> DecisionInfo | None:
    """Return the decision that an earlier request with this idempotency key stored, or None."""
    if not request.key or (interrupt.version == 1 and not interrupt.approvals):
        return None  # The interrupt has no decision yet.
    decisions = Decision.objects.using(write_alias()).filter(interrupt=interrupt)
    decision = decisions.filter(key=request.key, by=request.by).order_by("version").first()
    if decision is None:
        return None
    if decision.request_digest != request.digest:
        raise IdempotencyKeyReusedError(
            f"Idempotency key {request.key!r} was already used with a different decision "
            "on this interrupt."
        )
    return DecisionInfo.from_row(decision, interrupt.run_id, repeated=True)


def _refuse_if_stale(interrupt: Interrupt, digest: str | None, version: int | None) -> None:
    if digest is not None and digest != interrupt.payload_digest:
        raise StaleInterruptError
    if version is not None and version != interrupt.version:
        raise StaleInterruptError


def _raise_if_run_stopped(interrupt: Interrupt) -> None:
    if interrupt.run.state not in Run.ANSWERABLE:
        raise lookup.run_stopped_error(interrupt.run)
