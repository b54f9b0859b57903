"""Filters of the review queue: conditions (Q) on claims, and the search for words.

All times are compared with the database's clock. An expired claim or snooze is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.forms.local_time import today
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.models.functions import Now
from hitl_django.models.review import queue_order
from hitl_django.models.search import has_index, has_words
from hitl_django.permissions import select_visible

from . import quorum
from .periods import start_of_day

#: Maximum number of rows that a search reads on databases without an index of words.
SCANNED = 10_000

PENDING = Q(status=Interrupt.Status.PENDING)
CLAIMED = Q(claimed_until__gt=Now())
UNCLAIMED = Q(claimed_until__isnull=True) | Q(claimed_until__lte=Now())
SNOOZED = Q(snoozed_until__gt=Now())
AWAKE = Q(snoozed_until__isnull=True) | Q(snoozed_until__lte=Now())
#: The index contains ``overdue``. The time comparison adds interrupts that the sweep hasn't marked
#: as overdue yet.
OVERDUE_PARTS = (Q(overdue=True), Q(overdue=False, due_at__lte=Now()))
OVERDUE = OVERDUE_PARTS[0] | OVERDUE_PARTS[1]
#: Conditions on the priority, by name.
PRIORITIES = {
    "urgent": Q(priority__gt=1),
    "high": Q(priority=1),
    "normal": Q(priority=0),
    "low": Q(priority__lt=0),
}
#: Names of the conditions on the assignee, and on the due time.
ASSIGNEES = ("me", "nobody")
DUE_TIMES = ("overdue", "today", "week", "none")
#: A run in any other state must be retried before its interrupts can be decided.
ANSWERABLE = Q(run__state__in=Run.ANSWERABLE)


def list_pending(
    user: Any, *, graph: Any = None, group: Any = None, where: Q | None = None
) -> QuerySet[Interrupt]:
    """Return the pending interrupts that the user may see.

    Without a user, all pending interrupts are returned. ``graph``, ``group`` (a Group or its key)
    and the condition ``where`` narrow the result.
    """
    rows = Interrupt.objects.using(write_alias()).filter(PENDING).order_by()
    if graph is not None:
        rows = rows.filter(graph=graph)
    if group is not None:
        rows = rows.filter(group=group)
    if where is not None:
        rows = rows.filter(where)
    return select_visible(rows, user)


def read_first(rows: QuerySet[Any], parts: Sequence[Q], most: int) -> QuerySet[Any]:
    """Return the first rows in the order of the queue, at most ``most`` for each condition.

    If the conditions in ``parts`` were combined with OR, the query planner would read all pending
    interrupts. Each condition alone can use an index in the order of the queue, so only its first
    rows are read.
    """
    if len(parts) == 1:
        return rows.filter(parts[0]).order_by(*queue_order())[:most]
    keys = [
        # Look the keys up again, because not every database supports a limit within a union.
        rows.filter(pk__in=rows.filter(part).order_by(*queue_order()).values("pk")[:most])
        .order_by()
        .values("pk")
        for part in parts
    ]
    return rows.filter(pk__in=keys[0].union(*keys[1:], all=True)).order_by(*queue_order())


def skip_locked(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Lock rows in the order of the queue, except rows that another caller has locked.

    SQLite has no row locks, but only one writer at a time.
    """
    return rows.select_for_update(skip_locked=True, of=("self",)).order_by(*queue_order())


def match_words(text: str, *, common: bool = False, through: str = "") -> Q:
    """Return a condition on interrupts: the interrupt's search text contains all words of ``text``.

    Pass ``common`` if many matches are expected: the query then doesn't use the index of words.
    ``through`` is the lookup to interrupts from another model.
    """
    return has_words(text, write_alias(), common=common, through=through)


@dataclass(frozen=True, slots=True)
class Search:
    """A search with two alternative queries, because the query planner can't know which is faster.

    The search covers ``rows``. ``few`` uses the index of words, which is faster unless many rows
    match. ``many`` checks ``rows`` one after the other, which is faster if many rows match. On a
    database without the index, both queries search only the first SCANNED rows.
    """

    rows: QuerySet[Any]
    few: QuerySet[Any]
    many: QuerySet[Any]

    @classmethod
    def build(cls, rows: QuerySet[Any], text: str) -> Search:
        looked_at = rows
        if not has_index(write_alias()):
            looked_at = rows.filter(pk__in=_in_order(rows)[:SCANNED])
        few = looked_at.filter(match_words(text)).order_by()
        return cls(rows, few, looked_at.filter(match_words(text, common=True)))

    def is_cut_short(self) -> bool:
        """Return whether the search covers only the first rows of the queue."""
        if has_index(write_alias()):
            return False
        return _in_order(self.rows)[SCANNED : SCANNED + 1].exists()

    def find_early(self, most: int) -> QuerySet[Any]:
        """Return the rows that match the search, among the first ``most`` of ``self.rows``."""
        return self.many.filter(pk__in=self.rows.values("pk")[:most]).order_by()

    def find(self, count: int, most: int) -> QuerySet[Any]:
        """Return the matching rows, with the query that is faster for their number.

        ``count`` is the number of rows in ``few``, counted up to ``most``.
        """
        if count >= most:
            return self.many
        # The limit makes the query planner use the index.
        return self.rows.filter(pk__in=self.few.values("pk")[:most])


def _in_order(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by(*queue_order()).values("pk")


def match_assignee(name: str, user: Any) -> Q:
    """Return the condition on interrupts for one of the names in ASSIGNEES.

    An interrupt that is assigned only to a group doesn't match "nobody".
    """
    if name == "me":
        return Q(assignee=user.pk)
    return Q(assignee__isnull=True, group__isnull=True)


def match_due(name: str) -> Q:
    """Return the condition on interrupts for one of the names in DUE_TIMES.

    Days begin at midnight in the current time zone, and weeks on Monday. An interrupt that was due
    today or in this week remains included when it is overdue.
    """
    if name == "overdue":
        return OVERDUE
    if name == "none":
        return Q(due_at__isnull=True)
    day, length = today(), 1
    if name == "week":
        day, length = day - timedelta(days=day.weekday()), 7
    end = day + timedelta(days=length)
    return Q(due_at__gte=start_of_day(day), due_at__lt=start_of_day(end))


def match_chosen(user: Any, *, priority: str = "", assignee: str = "", due: str = "") -> Q:
    """Return a condition on interrupts: the interrupt has this priority, assignee and due time.

    Each argument is a name, for example one of ASSIGNEES. An unknown name is ignored.
    """
    found = PRIORITIES.get(priority, Q())
    if assignee in ASSIGNEES:
        found &= match_assignee(assignee, user)
    return found & match_due(due) if due in DUE_TIMES else found


def match_own(user: Any) -> Q:
    """Return a condition on interrupts: the user has claimed the interrupt or is its assignee."""
    return Q(claimed_by=user.pk) & CLAIMED | Q(assignee=user.pk)


def match_claimed_by_others(user: Any) -> Q:
    """Return a condition on interrupts: another user has claimed the interrupt."""
    return CLAIMED & ~Q(claimed_by=user.pk)


def match_unclaimed(user: Any, groups: Sequence[Any] | None = None) -> Q:
    """Return a condition on interrupts: the user could claim the interrupt.

    The interrupt is neither claimed nor snoozed, its run can be resumed, and the user hasn't
    approved it. The interrupt is assigned to the user, to one of the user's groups, or to nobody.
    ``groups`` are the keys of the user's groups, if they are known.
    """
    shared = Q(group__isnull=True)
    if groups is None:
        shared |= Q(group__in=user.groups.order_by().values("pk"))
    for key in groups or ():
        shared |= Q(group=key)
    assigned = Q(assignee=user.pk) | Q(assignee__isnull=True) & shared
    return assigned & _match_takeable(user)


def split_unclaimed(user: Any, groups: Collection[Any], group: Any = None) -> list[Q]:
    """Return the condition of ``match_unclaimed`` as a list of conditions.

    An interrupt matches if it fulfils one of the conditions. ``read_first`` queries the conditions
    one by one. ``groups`` are the keys of the user's groups. With ``group`` (a Group or its key),
    only interrupts of that group and interrupts assigned to the user match.
    """
    theirs = [Q(group=key) for key in groups]
    if group is None:
        theirs.append(Q(group__isnull=True))
    else:
        # A query for a group without matching rows would read every row.
        key = getattr(group, "pk", group)
        theirs = [Q(group=key)] if key in groups else []
    shared = [Q(assignee__isnull=True) & one for one in theirs]
    return [one & _match_takeable(user) for one in (Q(assignee=user.pk), *shared)]


def list_group_keys(user: Any) -> list[Any]:
    """Return the keys of the user's groups."""
    return list(user.groups.order_by().values_list("pk", flat=True))


def match_claimed_by(user: Any) -> Q:
    """Return a condition on interrupts: the user has claimed the interrupt and could decide it."""
    return CLAIMED & Q(claimed_by=user.pk) & AWAKE & ANSWERABLE & ~_match_already_approved(user)


def match_pending_for(user: Any) -> Q:
    """Return a condition on interrupts: the user may approve the interrupt now.

    The interrupt is pending and not snoozed. Interrupts that another user has claimed are included.
    """
    return PENDING & AWAKE & ~_match_already_approved(user)


def _match_takeable(user: Any) -> Q:
    return UNCLAIMED & AWAKE & ANSWERABLE & ~_match_already_approved(user)


def _match_already_approved(user: Any) -> Q:
    """Return a condition on interrupts: the user can't approve the interrupt.

    The condition matches in two cases. The user has already approved the current version of an
    interrupt that needs several approvals. Or the user started the run, and the interrupt doesn't
    allow self-approval.
    """
    approvals = Decision.objects.filter(
        interrupt=OuterRef("pk"), version=OuterRef("version"), by=user.pk
    )
    own = Q(quorum.match_started_by(user, "run"), no_self_approval=True)
    return own | Q(Exists(approvals), quorum__gt=1)
