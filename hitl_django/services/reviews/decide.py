"""decide: one question, one decision, whoever and however many try."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction

from hitl_django import signals
from hitl_django.checkpoints.queries import AnswersRow
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import HitlError
from hitl_django.errors import (
    IdempotencyKeyReusedError,
    InterruptNotFound,
    StaleInterruptError,
)
from hitl_django.graph_registry import registry
from hitl_django.leases.queries import THREAD
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.permissions import find_row, get_policy, refuse_unless_may, select_visible

from .. import denied_log, queries
from ..results import DecisionInfo
from . import lookup, quorum, record_decision, resumption
from .record_decision import Guest, Request, Validated

#: How often a question is read again that changed while an answer to it was validated.
MOST_READS = 5


def decide(
    interrupt_id: UUID | str,
    type: str | None = None,  # noqa: A002  (the word of the API)
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
) -> DecisionInfo:
    """Record what a person did with an open question, and makes its run ready to go on.

    Exactly one caller wins; every other gets AlreadyDecidedError, which says who did. A repeat of
    the winning request with the same ``key`` by the same user gets the first outcome back, with
    ``repeated`` set; the same key with another request is an IdempotencyKeyReusedError. ``digest``
    and ``version`` are those of the question as it was shown: StaleInterruptError if it has changed
    since. ``guest`` is who decides without an account. Nothing is written unless everything is:
    decision, audit entry, resume value and the run's state share one transaction. The answer is
    validated before that opens; if the question has changed by then, it is validated anew.

    Where several have to agree, a decision that isn't the last of them is not ``complete``: the
    question stays open. It counts for the version that was approved; another answer than that is
    proposed to the others as another version, which begins with the approval of who proposed it.
    A rejection needs no second. AlreadyApprovedError where the same person has agreed before.

    ``resume`` stands in the place of type and value: what the graph is to receive. It is the
    decision that comes to this, and refused where none does that the question can be given.

    A claim of somebody else's is no obstacle, unless the question requires one, and is recorded
    with the decision. With ``ignore_claim=False`` it is a ClaimedError, for who wants to ask first.
    """
    request = Request.build(
        type,
        value,
        resume=resume,
        by=by,
        via=via,
        reason=reason,
        key=key,
        guest=guest,
        ignore_claim=ignore_claim,
    )
    pk, shown = lookup.parse_id(interrupt_id), _Shown(digest, version)
    with denied_log.record_denial("decide", by=by, via=via):
        for _ in range(MOST_READS):
            with suppress(record_decision.ConcurrentChangeError):
                return _decide_as_read(pk, request, shown)
        raise StaleInterruptError


class _Shown(NamedTuple):
    """What the question was like when somebody saw it, as far as they say so."""

    digest: str | None
    version: int | None


@retry_on_conflict
def _decide_as_read(pk: UUID, request: Request, shown: _Shown) -> DecisionInfo:
    """Decide a question as it is at this moment; ConcurrentChangeError if it has changed
    meanwhile.

    First without a lock, where that is likely to do, then with the lock of its thread. Only the
    lock differs: what is read, refused and written is the same.
    """
    using = write_alias()
    found = _read(pk)
    validated = validate(found.interrupt, request)
    if validated is not None and _needs_no_lock(found.interrupt):
        # The permissions of a user are looked up in the transaction that needs them. Without a user
        # the batch is a transaction of its own.
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


def validate(interrupt: Interrupt, request: Request) -> Validated | None:
    """Validate what somebody sent, before any lock; None for a question that is closed."""
    if interrupt.status != Interrupt.Status.PENDING:
        return None  # of what was erased not even the payload is left
    return request.validate(interrupt)


def _needs_no_lock(interrupt: Interrupt) -> bool:
    """Return whether a question may be decided as it was read, without its thread's lock.

    Most questions are a run's only one and nobody else is at them. Nothing is written unless the
    question, its run and its thread's record are still what was read. What can be undone names the
    thread's epoch, which its lock keeps.
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
    found: _Found, request: Request, validated: Validated | None, shown: _Shown
) -> DecisionInfo:
    """Decide a question as it was read, whether or not its thread is locked meanwhile.

    ConcurrentChangeError, with nothing written, where it was validated against another or has
    changed since.
    """
    interrupt = found.interrupt
    _refuse_unless_visible(interrupt, request.by)
    _refuse_if_not_allowed(interrupt, request.by)
    earlier = _earlier_outcome(interrupt, request)
    if earlier is not None:
        return earlier
    if interrupt.status != Interrupt.Status.PENDING:
        raise lookup.already_decided_error(interrupt)
    _refuse_if_stale(interrupt, shown.digest, shown.version)
    return _record(found.thread, interrupt, validated, found.so_far)


def record_validated(
    thread: Thread, interrupt: Interrupt, validated: Validated | None
) -> DecisionInfo:
    """Record a decision on an open question of a locked thread.

    StaleInterruptError where it was validated against another version.
    """
    try:
        return _record(thread, interrupt, validated)
    except record_decision.ConcurrentChangeError:
        raise lookup.changed_error(interrupt) from None


def _record(
    thread: Thread,
    interrupt: Interrupt,
    validated: Validated | None,
    so_far: AnswersRow | None = None,
) -> DecisionInfo:
    """Raise the reasons against a decision, or record it.

    First come those of the run and of other people, then those of the answer itself.
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
        # Last of all: who is asked whether to do it anyway has nothing else to put right.
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
    """Return the resume value that ``decide`` would record; records nothing.

    Refuses what ``decide`` would, but for claims: whoever looks may claim the question yet.
    """
    request = Request.build(type, value, resume=resume, by=by, via="", reason=reason, key="")
    rows = select_visible(lookup.rows_with_run(), by)
    interrupt = find_row(rows, InterruptNotFound, pk=interrupt_id)
    return _checked(interrupt, request, by)


def find_refusals(
    interrupt_ids: Iterable[UUID],
    type: str,  # noqa: A002
    *,
    by: Any = None,
) -> dict[UUID, HitlError]:
    """Return why each of these questions can't be decided so, of those that can't.

    As ``check_answer`` for each, with one query for those that can.
    """
    request = Request.build(type, UNSET, by=by, via="", reason="", key="")
    wanted = list(interrupt_ids)
    refused: dict[UUID, HitlError] = dict.fromkeys(wanted, InterruptNotFound())
    rows = select_visible(lookup.rows_with_run().filter(pk__in=wanted), by)
    for interrupt in rows.iterator(chunk_size=20):  # payloads can be large
        del refused[interrupt.pk]
        try:
            _checked(interrupt, request, by)
        except HitlError as error:
            refused[interrupt.pk] = error
    return refused


def _checked(interrupt: Interrupt, request: Request, by: Any) -> Any:
    _refuse_if_not_allowed(interrupt, by)
    if interrupt.status != Interrupt.Status.PENDING:
        raise lookup.already_decided_error(interrupt)
    _raise_if_run_stopped(interrupt)
    validated = request.validate(interrupt)
    if validated.request.type:
        quorum.refuse_own(interrupt, validated.request.type, by)
    validated.raise_refusal()
    if interrupt.quorum > 1 and validated.is_vote:
        quorum.refuse_second_vote(interrupt, by)
    return validated.shown


def _refuse_unless_visible(interrupt: Interrupt, by: Any) -> None:
    """Raise InterruptNotFound where the user may not see a question that has just been read."""
    if by is None:
        return
    every = Interrupt.objects.using(write_alias())
    visible = select_visible(every, by)
    # Who may see all of them may see this one, and no query has to be made of it.
    if visible is not every and not visible.filter(pk=interrupt.pk).exists():
        raise InterruptNotFound


class _Found(NamedTuple):
    """A question with its thread, its run, and the answers that its task has so far."""

    thread: Thread
    interrupt: Interrupt
    so_far: AnswersRow


def _read(pk: UUID) -> _Found:
    """Read a question with all that a decision needs of it, as it is at this moment.

    Once its thread is locked, nobody else can change it, so a loser's message tells the truth. The
    lock is not what makes one decision win: the UPDATE that closes the question is.
    """
    using = write_alias()
    rows = queries.QUESTION.run(using, interrupt=pk)
    if not rows:
        raise InterruptNotFound
    row = rows[0]
    interrupt = queries.INTERRUPT.read(using, row)
    row = row[len(queries.INTERRUPT.names) :]
    interrupt.run = queries.RUN.read(using, row)
    thread = THREAD.read(using, row[len(queries.RUN.names) : -2])
    interrupt.thread = interrupt.run.thread = thread
    return _Found(thread, interrupt, AnswersRow(*row[-2:]))


def _refuse_if_not_allowed(interrupt: Interrupt, by: Any) -> None:
    refuse_unless_may(
        by,
        get_policy().may_decide,
        interrupt,
        "You don't have permission to decide this interrupt.",
    )


def _earlier_outcome(interrupt: Interrupt, request: Request) -> DecisionInfo | None:
    """Return the first outcome of a request that was made before, whatever came of it since."""
    if not request.key or (interrupt.version == 1 and not interrupt.approvals):
        return None  # nothing was decided yet
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
