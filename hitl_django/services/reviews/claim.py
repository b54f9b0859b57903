"""claim, release and take_next: who looks at a question right now.

A claim is a lease: a name and a time on the row, compared with the database's clock wherever it
matters, so nothing has to clear one that ran out. It is made by one UPDATE of one row; only what
takes a claim away from somebody locks the thread, for the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q, QuerySet

from hitl_django import audit
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import IdempotencyKeyReusedError
from hitl_django.models import Interrupt, Thread
from hitl_django.models.fields import digest_json
from hitl_django.models.functions import Now
from hitl_django.models.review import LARGE_COLUMNS, get_cleared_claim, queue_order
from hitl_django.permissions import get_policy, refuse_unless_may

from .. import denied_log
from . import deadlines, lookup, queue_filters

#: Candidates that take_next reads at a time, and altogether.
FEW, MANY, MOST = 10, 100, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInfo:
    """Who holds a question, and until when."""

    interrupt_id: UUID
    claimed_by_id: Any
    claimed_by_label: str
    until: datetime

    @classmethod
    def from_row(cls, interrupt: Interrupt) -> ClaimInfo:
        """Return the claim in a question's row as a plain value."""
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
    """Hold an open question for the user for CLAIM_SECONDS or ``seconds``; renews their own claim.

    ClaimedError if somebody else holds it. With ``take_over`` it changes hands, which needs a
    permission of its own and is recorded.
    """
    _refuse_nobody(by)
    refusal = denied_log.record_denial("claim", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        # What may take it from somebody locks the thread before it touches the question: an UPDATE
        # that waited for a row keeps that row locked, even where it no longer matches.
        if take_over:
            lookup.lock(interrupt_id, by)
        interrupt = lookup.find(interrupt_id, by)
        message = "You don't have permission to decide this interrupt."
        refuse_unless_may(by, get_policy().may_decide, interrupt, message)
        lookup.refuse_if_closed(interrupt)
        # Zero rows: somebody else holds it, or it was closed meanwhile.
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
    """End the user's claim; somebody else's only with the permission to take over, and recorded.

    A question that nobody holds stays as it is.
    """
    refusal = denied_log.record_denial("release", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        interrupt = lookup.find(interrupt_id, by)
        if by is not None and interrupt.claimed_by_id == by.pk:
            # Zero rows: it was taken over, or closed, since it was read, and nothing is left to
            # end. The row may be locked by now, so it is too late to ask for the thread's lock.
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
    key: str = "",
    after: UUID | str | None = None,
) -> UUID | None:
    """Claim the best free question that the user may see and decide; None where there is none.

    The best is the first in the queue's order: overdue, priority, due, age. ``graph`` and
    ``group`` (a Group or its key) narrow the choice. Any number of callers at once get different
    ones; but the same ``key`` of the same user gets the question that it got before, whatever has
    become of it, until somebody else takes that.

    ``after`` is the question that the user comes from, which isn't given again. Where they are
    done with it, what its thread asks besides comes first; where nothing is free, what they hold.
    """
    _refuse_nobody(by)
    deadlines.mark_overdue()
    taking = _Taking.build(by, key, graph, group)
    left = None if after is None else lookup.parse_id(after)
    with transaction.atomic(using=write_alias()):
        if key:
            # The same request may come twice at once. The one that waits here finds what the other
            # has taken; without that it could find all locked by more of its kind, and so nothing.
            users = get_user_model()._base_manager.using(write_alias()).filter(pk=by.pk)
            users.select_for_update(no_key=True, of=("self",)).values_list("pk").first()
        return taking.found() or _take(by, graph, group, taking, left)


def find_taken(key: str, *, by: Any, graph: str | None = None, group: Any = None) -> UUID | None:
    """Return what take_next gave the user for the same key, if it did.

    The key with another ``graph`` or ``group`` than then is an IdempotencyKeyReusedError.
    """
    return _Taking.build(by, key, graph, group).found()


@dataclass(frozen=True, slots=True)
class _Taking:
    """Under which key a question is taken, and as what; as a row of it is marked."""

    claim_key: str | None
    claim_filters: str

    @classmethod
    def build(cls, by: Any, key: str, graph: str | None, group: Any) -> _Taking:
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


def _take(
    by: Any, graph: str | None, group: Any, taking: _Taking, after: UUID | None
) -> UUID | None:
    rows = queue_filters.list_waiting(by, graph=graph, group=group)
    free = queue_filters.split_free(by, queue_filters.list_group_keys(by), group)
    if after is None:
        return _take_one_of(rows, free, by, taking)
    rows, every = rows.exclude(pk=after), queue_filters.list_waiting(by).exclude(pk=after)
    # Where they only leave it, and it still waits for them, they don't stay with its thread.
    done_with = _rows().filter(~queue_filters.match_waiting_for(by), pk=after)
    left = done_with.values("thread_id").first()
    beside = None
    if left is not None:
        # As a value: the planner then knows how few these are.
        beside = _take_one_of(every.filter(**left), [queue_filters.match_unclaimed(by)], by, taking)
    return beside or _take_one_of(rows, free, by, taking) or _renew_own_claim(rows, by)


def _take_one_of(rows: QuerySet[Interrupt], free: list[Q], by: Any, taking: _Taking) -> UUID | None:
    for candidates in _candidates(rows, free, by):
        taken = _take_first(rows, candidates, by, taking)
        if taken is not None:
            return taken
    return None


def _renew_own_claim(rows: QuerySet[Interrupt], by: Any) -> UUID | None:
    """Renew the user's claim on the first question that they hold and could decide."""
    for candidates in _candidates(rows, [queue_filters.match_claimed_by(by)], by):
        for pk in candidates:
            # Zero rows: it was closed, released or taken over since it was read.
            if write_claim(_rows().filter(pk=pk, claimed_by=by.pk), by, None):
                return pk
    return None


def _candidates(rows: QuerySet[Interrupt], parts: list[Q], by: Any) -> Iterator[list[UUID]]:
    """Give the keys of what is so and may be decided, a batch at a time; nothing is locked."""
    policy, seen = get_policy(), set[UUID]()
    rows = rows.select_related("run", "thread").defer(*LARGE_COLUMNS)
    while len(seen) < MOST:
        size = MANY if seen else FEW
        found = list(queue_filters.read_first(rows.exclude(pk__in=seen), parts, size)[:size])
        yield [row.pk for row in found if policy.may_decide(by, row)]
        seen.update(row.pk for row in found)
        if len(found) < size:
            return


def _take_first(
    rows: QuerySet[Interrupt], candidates: list[UUID], by: Any, taking: _Taking
) -> UUID | None:
    """Claim the first of the candidates that is still free, and that nobody else is taking."""
    free = rows.filter(queue_filters.match_unclaimed(by)).order_by(*queue_order())
    while candidates:
        # All conditions again: it may have been assigned or put off since it was read. Where rows
        # can be locked, those that another caller is about to take are passed by instead of waited
        # for. SQLite has one writer at a time and nothing to lock.
        row = free.filter(pk__in=candidates).select_for_update(skip_locked=True, of=("self",))
        pk = row.values_list("pk", flat=True).first()
        if pk is None:
            return None
        # Zero rows: where nothing was locked, somebody else took it since it was read.
        if write_claim(_rows().filter(queue_filters.UNCLAIMED, pk=pk), by, None, **asdict(taking)):
            return pk
        candidates.remove(pk)
    return None


def write_claim(rows: QuerySet[Interrupt], by: Any, seconds: float | None, **more: Any) -> int:
    """Write the claim on an open question; returns for how many of the ``rows``.

    Their conditions are the whole guarantee: of any number of concurrent callers one UPDATE
    matches.
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


def _refuse_nobody(by: Any) -> None:
    if by is None:
        raise ValueError("Claiming requires a user (by=).")


def _refuse_unless_may_take_over(interrupt: Interrupt, by: Any) -> None:
    message = "You don't have permission to take over claims."
    refuse_unless_may(by, get_policy().may_take_over, interrupt, message)
