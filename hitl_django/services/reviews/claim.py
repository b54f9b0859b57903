"""Claims on interrupts: claim, release, claim_next and find_next.

A claim is a user and an end time in the interrupt's row. The end time is compared with the
database's clock, so an expired claim needs no cleanup. Claiming is a single UPDATE of one row. Only
taking over or ending another user's claim locks the thread, because these actions append an audit
log entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, cast
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q, QuerySet

from hitl_django import audit
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import IdempotencyKeyReusedError
from hitl_django.models import Interrupt, Thread
from hitl_django.models.fields import digest_json
from hitl_django.models.functions import Now
from hitl_django.models.review import LARGE_COLUMNS, get_cleared_claim
from hitl_django.permissions import check_user, get_policy, refuse_unless_may, select_visible

from .. import denied_log
from . import claim_queries, deadlines, lookup, queue_filters

#: Maximum numbers of candidates that claim_next reads in the first batch, in each later batch, and
#: in total.
FEW, MANY, MOST = 10, 100, 1000
LONGEST = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInfo:
    """The claim on an interrupt."""

    interrupt_id: UUID
    claimed_by_id: Any
    claimed_by_label: str
    until: datetime

    @classmethod
    def from_row(cls, interrupt: Interrupt) -> ClaimInfo:
        return cls(
            interrupt_id=interrupt.pk,
            claimed_by_id=interrupt.claimed_by_id,
            claimed_by_label=interrupt.claimed_by_label,
            until=cast(datetime, interrupt.claimed_until),
        )


@retry_on_conflict
def claim(
    interrupt_id: UUID | str,
    *,
    by: Any,
    via: str = "code",
    seconds: float | None = None,
    take_over: bool = False,
) -> ClaimInfo:
    """Claim a pending interrupt, or renew the user's own claim.

    The claim ends after ``seconds``, by default CLAIM_SECONDS. With ``take_over``, another user's
    claim is replaced. Replacing a claim needs a separate permission and appends an audit log entry.

    Raises:
        InvalidInputError: if the duration is not positive, or longer than 365 days.
        ClaimedError: if another user has claimed the interrupt, without ``take_over``.
        NotAllowedError: if the user may not decide the interrupt, or may not take over claims.
        AlreadyDecidedError: if the interrupt is not pending.
    """
    _refuse_without_user(by)
    if seconds is not None and not 0 < seconds <= LONGEST.total_seconds():
        reason = f"must be more than 0 seconds, and at most {LONGEST.days} days"
        raise InvalidInputError(f"The duration of a claim {reason}.", [("seconds", reason)])
    refusal = denied_log.record_denial("claim", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        # Lock the thread before the interrupt: an UPDATE that had to wait for a row locks it even
        # if the row no longer matches.
        if take_over:
            lookup.lock(interrupt_id, by)
        interrupt = lookup.find(interrupt_id, by)
        message = "You don't have permission to decide this interrupt."
        refuse_unless_may(by, get_policy().may_decide, interrupt, message)
        lookup.refuse_if_closed(interrupt)
        # Zero rows: another user has claimed the interrupt, or it was closed in the meantime.
        if not write_claim(
            _row(interrupt).filter(queue_filters.UNCLAIMED | Q(claimed_by=by.pk)), by, seconds
        ):
            if take_over:
                _take_over(interrupt, by, via, seconds)
            else:
                interrupt = lookup.find(interrupt.pk, by)
                lookup.refuse_if_closed(interrupt)
                raise lookup.claimed_error(interrupt)
        return ClaimInfo.from_row(_row(interrupt).defer(*LARGE_COLUMNS).get())


@retry_on_conflict
def release(interrupt_id: UUID | str, *, by: Any = None, via: str = "code") -> None:
    """End the user's claim on an interrupt.

    Without a claim, nothing changes. Ending another user's claim appends an audit log entry.

    Raises:
        NotAllowedError: if another user has the claim, and the user may not take over claims.
    """
    refusal = denied_log.record_denial("release", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        interrupt = lookup.find(interrupt_id, by)
        if by is not None and interrupt.claimed_by_id == by.pk:
            # Zero rows: another user has taken over the claim, or the interrupt was closed since it
            # was read. There is no claim to end. The UPDATE may have locked the row, so locking the
            # thread now could cause a deadlock.
            _row(interrupt).filter(claimed_by=by.pk).update(**get_cleared_claim())
            return
        if not _row(interrupt).filter(queue_filters.CLAIMED).exists():
            return
        thread, interrupt = lookup.lock(interrupt.pk, by)
        if by is None or interrupt.claimed_by_id != by.pk:
            _refuse_unless_may_take_over(interrupt, by)
        if _row(interrupt).filter(queue_filters.CLAIMED).update(**get_cleared_claim()):
            _record(thread, "release", interrupt, by, via)


@retry_on_conflict
def claim_next(
    *,
    by: Any,
    via: str = "code",
    graph: str | None = None,
    group: Any = None,
    where: Q | None = None,
    key: str = "",
    after: UUID | str | None = None,
) -> UUID | None:
    """Claim the first unclaimed interrupt that the user may see and decide, and return its id.

    Returns None if there is no such interrupt. The order is that of the review queue: overdue,
    priority, due time, age. ``graph``, ``group`` (a Group or its key) and ``where``, a condition on
    interrupts, narrow the choice. Concurrent callers get different interrupts. If the same user
    repeats a call with the same ``key``, the function returns the same interrupt, even if it is no
    longer pending. But an interrupt stores only the key of its latest ``claim_next`` call. If the
    claim expired and another call has claimed the interrupt since, the function returns a different
    interrupt.

    ``after`` is the id of an interrupt to skip. If the user can't decide that interrupt any more,
    other pending interrupts of its thread come first. If no interrupt is unclaimed, the function
    returns an interrupt that the user has already claimed.
    """
    _refuse_without_user(by)
    deadlines.mark_overdue()
    taking = _KeyedClaim.build(by, key, graph, group)
    left = None if after is None else lookup.parse_id(after)
    with transaction.atomic(using=write_alias()):
        if key:
            # The same request may arrive twice simultaneously. The second request waits here until
            # the first has claimed an interrupt. Otherwise the second could find all rows locked by
            # similar requests and return None.
            users = get_user_model()._base_manager.using(write_alias()).filter(pk=by.pk)
            users.select_for_update(no_key=True, of=("self",)).values_list("pk").first()
        earlier = taking.found()
        if earlier is not None:
            return earlier
        every = queue_filters.list_pending(None, graph=graph, group=group, where=where)
        rows = select_visible(every, by)
        if rows is every and where is None and left is None:
            return _take_prepared(rows, by, graph, group, taking)
        return _take(rows, by, group, taking, left)


def find_next(
    *,
    by: Any,
    graph: str | None = None,
    group: Any = None,
    where: Q | None = None,
    after: UUID | str | None = None,
) -> UUID | None:
    """Return the id of the interrupt that ``claim_next`` would probably claim, or None.

    The arguments are those of ``claim_next``. Nothing is written, so another user may claim the
    interrupt first. Unlike ``claim_next``, this function doesn't prefer other interrupts of the
    thread of ``after``.
    """
    _refuse_without_user(by)
    rows = queue_filters.list_pending(by, graph=graph, group=group, where=where)
    if after is not None:
        rows = rows.exclude(pk=lookup.parse_id(after))
    free = queue_filters.split_unclaimed(by, queue_filters.list_group_keys(by), group)
    own = [queue_filters.match_claimed_by(by)]
    batches = chain(_candidates(rows, free, by), _candidates(rows, own, by))
    return next(chain.from_iterable(batches), None)


def find_claimed(key: str, *, by: Any, graph: str | None = None, group: Any = None) -> UUID | None:
    """Return the id of the interrupt that ``claim_next`` returned for this key and user, or None.

    Raises:
        IdempotencyKeyReusedError: if ``graph`` or ``group`` differ from the earlier call.
    """
    return _KeyedClaim.build(by, key, graph, group).found()


@dataclass(frozen=True, slots=True)
class _KeyedClaim:
    """The key and the filters of a ``claim_next`` call, stored in columns of the interrupt."""

    claim_key: str | None
    claim_filters: str

    @classmethod
    def build(cls, by: Any, key: str, graph: str | None, group: Any) -> _KeyedClaim:
        check_user(by)
        if not key:
            return cls(None, "")
        chosen = [graph, str(getattr(group, "pk", group))]
        return cls(digest_json([str(by.pk), key]), digest_json(chosen))

    def found(self) -> UUID | None:
        if self.claim_key is None:
            return None
        rows = _rows().filter(claim_key=self.claim_key)
        taken = rows.values_list("pk", "claim_filters", named=True).first()
        if taken is not None and taken.claim_filters != self.claim_filters:
            raise IdempotencyKeyReusedError(
                "The idempotency key was already used with different filters."
            )
        return None if taken is None else taken.pk


def _take_prepared(
    rows: QuerySet[Interrupt], by: Any, graph: str | None, group: Any, taking: _KeyedClaim
) -> UUID | None:
    """Claim the first unclaimed interrupt for a user who may see all interrupts.

    Return the id of the interrupt, or None if there is no such interrupt. ``rows`` are the pending
    interrupts of ``graph`` and ``group``. The first candidates are read with prepared statements.
    """
    groups = queue_filters.list_group_keys(by)
    free = claim_queries.UnclaimedInterrupts.build(by, groups, graph, group)
    found = free.read_first(FEW)
    taken = _take_first(free.lock_first, _list_decidable(found, by), by, taking)
    if taken is not None or len(found) < FEW:
        return taken
    return _take_one_of(rows, queue_filters.split_unclaimed(by, groups, group), by, taking)


def _take(
    rows: QuerySet[Interrupt], by: Any, group: Any, taking: _KeyedClaim, after: UUID | None
) -> UUID | None:
    free = queue_filters.split_unclaimed(by, queue_filters.list_group_keys(by), group)
    if after is None:
        return _take_one_of(rows, free, by, taking)
    rows, every = rows.exclude(pk=after), queue_filters.list_pending(by).exclude(pk=after)
    # A user who skips an interrupt without deciding it gets interrupts of any thread.
    done_with = _rows().filter(~queue_filters.match_pending_for(by), pk=after)
    left = done_with.values("thread_id").first()
    same_thread = None
    if left is not None:
        # Pass the thread as a value, so that the query planner knows that few rows match.
        same_thread = _take_one_of(
            every.filter(**left), [queue_filters.match_unclaimed(by)], by, taking
        )
    return same_thread or _take_one_of(rows, free, by, taking) or _renew_own_claim(rows, by)


def _take_one_of(
    rows: QuerySet[Interrupt], free: list[Q], by: Any, taking: _KeyedClaim
) -> UUID | None:
    for candidates in _candidates(rows, free, by):
        taken = _take_first(partial(_lock_first, rows, by), candidates, by, taking)
        if taken is not None:
            return taken
    return None


def _renew_own_claim(rows: QuerySet[Interrupt], by: Any) -> UUID | None:
    for candidates in _candidates(rows, [queue_filters.match_claimed_by(by)], by):
        for pk in candidates:
            # Zero rows: the interrupt was closed, released or taken over after it was read.
            if write_claim(_rows().filter(pk=pk, claimed_by=by.pk), by, None):
                return pk
    return None


def _candidates(rows: QuerySet[Interrupt], parts: list[Q], by: Any) -> Iterator[list[UUID]]:
    """Yield batches of the ids of candidates for a claim, without locking their rows.

    A candidate matches one of the conditions ``parts``.
    """
    seen = set[UUID]()
    rows = rows.select_related("run", "thread").defer(*LARGE_COLUMNS)
    while len(seen) < MOST:
        size = MANY if seen else FEW
        found = list(queue_filters.read_first(rows.exclude(pk__in=seen), parts, size)[:size])
        yield _list_decidable(found, by)
        seen.update(row.pk for row in found)
        if len(found) < size:
            return


def _list_decidable(found: Iterable[Interrupt], by: Any) -> list[UUID]:
    may_decide = get_policy().may_decide
    return [row.pk for row in found if may_decide(by, row)]


def _lock_first(rows: QuerySet[Interrupt], by: Any, candidates: list[UUID]) -> UUID | None:
    """Lock the first candidate that the user can still claim and that nobody else has locked.

    Return the id of the candidate, or None if there is no such candidate.
    """
    free = rows.filter(queue_filters.match_unclaimed(by), pk__in=candidates)
    return queue_filters.skip_locked(free).values_list("pk", flat=True).first()


def _take_first(
    lock_first: Callable[[list[UUID]], UUID | None],
    candidates: list[UUID],
    by: Any,
    taking: _KeyedClaim,
) -> UUID | None:
    """Claim the first candidate that no other user has claimed or is claiming now.

    Return its id, or None if no candidate is left. ``lock_first`` locks the first candidate that
    can still be claimed. ``taking`` contains the values of the columns to set.
    """
    while candidates:
        # Check all conditions again, because the interrupt may have been assigned or snoozed since
        # it was read.
        pk = lock_first(candidates)
        if pk is None:
            return None
        # Zero rows: without row locks, another user has claimed the interrupt since it was read.
        if write_claim(_rows().filter(queue_filters.UNCLAIMED, pk=pk), by, None, **asdict(taking)):
            return pk
        candidates.remove(pk)
    return None


def write_claim(rows: QuerySet[Interrupt], by: Any, seconds: float | None, **more: Any) -> int:
    """Claim the pending interrupts among ``rows`` for a user. Return the number of claimed rows.

    The claim ends after ``seconds``, by default CLAIM_SECONDS. ``more`` are other columns to set.
    Existing claims are replaced, unless ``rows`` excludes claimed interrupts.
    """
    until = timedelta(seconds=hitl.CLAIM_SECONDS if seconds is None else seconds)
    return rows.filter(queue_filters.PENDING).update(
        claimed_by=by.pk, claimed_by_label=audit.label_user(by), claimed_until=Now() + until, **more
    )


def _take_over(interrupt: Interrupt, by: Any, via: str, seconds: float | None) -> None:
    thread, interrupt = lookup.lock(interrupt.pk, by)
    lookup.refuse_if_closed(interrupt)
    _refuse_unless_may_take_over(interrupt, by)
    write_claim(_row(interrupt), by, seconds)
    _record(thread, "take_over", interrupt, by, via)


def _record(thread: Thread, verb: str, interrupt: Interrupt, by: Any, via: str) -> None:
    detail = {"from": interrupt.claimed_by_label, "version": interrupt.version}
    audit.append_alone(thread, verb, by=by, via=via, subject=str(interrupt.pk), detail=detail)


def _row(interrupt: Interrupt) -> QuerySet[Interrupt]:
    return _rows().filter(pk=interrupt.pk)


def _rows() -> QuerySet[Interrupt]:
    return Interrupt.objects.using(write_alias())


def _refuse_without_user(by: Any) -> None:
    if by is None:
        raise ValueError("Claiming requires a user (by=).")


def _refuse_unless_may_take_over(interrupt: Interrupt, by: Any) -> None:
    message = "You don't have permission to take over claims."
    refuse_unless_may(by, get_policy().may_take_over, interrupt, message)
