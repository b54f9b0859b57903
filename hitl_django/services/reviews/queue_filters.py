"""Filters of the review queue: conditions (Q) for who may take a question, and word search.

All are on the clock of the database. A claim or a snooze whose time is past counts as none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.models.functions import Now
from hitl_django.models.review import queue_order
from hitl_django.models.search import has_index, has_words
from hitl_django.permissions import select_visible

from . import quorum

#: As many rows are looked at where no index finds their words.
SCANNED = 10_000

PENDING = Q(status=Interrupt.Status.PENDING)
CLAIMED = Q(claimed_until__gt=Now())
UNCLAIMED = Q(claimed_until__isnull=True) | Q(claimed_until__lte=Now())
SNOOZED = Q(snoozed_until__gt=Now())
AWAKE = Q(snoozed_until__isnull=True) | Q(snoozed_until__lte=Now())
#: The flag is what the index knows; the clock knows of those that the sweep hasn't seen yet.
OVERDUE_PARTS = (Q(overdue=True), Q(overdue=False, due_at__lte=Now()))
OVERDUE = OVERDUE_PARTS[0] | OVERDUE_PARTS[1]
#: Of a run that has stopped otherwise, no answer is taken before somebody lets it go on.
ANSWERABLE = Q(run__state__in=Run.ANSWERABLE)


def list_waiting(user: Any, *, graph: str | None = None, group: Any = None) -> QuerySet[Interrupt]:
    """Return the open questions that the user may see; None sees all.

    ``graph`` and ``group`` (a Group or its key) narrow them.
    """
    rows = Interrupt.objects.using(write_alias()).filter(PENDING).order_by()
    if graph is not None:
        rows = rows.filter(graph=graph)
    if group is not None:
        rows = rows.filter(group=group)
    return select_visible(rows, user)


def read_first(rows: QuerySet[Any], parts: Sequence[Q], most: int) -> QuerySet[Any]:
    """Return the first rows in the queue's order, at most ``most`` of each part of a condition.

    Whoever asks for one condition *or* another gets a plan that looks at all that waits, in the
    queue's order or in none. Each part has an index in that order, from which its first are read.
    """
    if len(parts) == 1:
        return rows.filter(parts[0]).order_by(*queue_order())[:most]
    keys = [
        # A key that is looked up again, since not every database takes a limit within a union.
        rows.filter(pk__in=rows.filter(part).order_by(*queue_order()).values("pk")[:most])
        .order_by()
        .values("pk")
        for part in parts
    ]
    return rows.filter(pk__in=keys[0].union(*keys[1:], all=True)).order_by(*queue_order())


def match_words(text: str, *, common: bool = False, through: str = "") -> Q:
    """Match the questions that have all words of the text in what they ask.

    ``common`` says that there are many of them, ``through`` leads to them from other rows.
    """
    return has_words(text, write_alias(), common=common, through=through)


@dataclass(frozen=True, slots=True)
class Search:
    """A search in two queries, of which the database's planner can't know the better one.

    ``few`` looks words up in their index, which is best unless very many rows have them. ``many``
    looks at one row after the other in the list's own order, and meets with many of those soon.
    Where a database has no index, both look at the first SCANNED rows of the queue.
    """

    rows: QuerySet[Any]
    few: QuerySet[Any]
    many: QuerySet[Any]

    @classmethod
    def build(cls, rows: QuerySet[Any], text: str) -> Search:
        """Return the search of the rows for a text's words."""
        looked_at = rows
        if not has_index(write_alias()):
            looked_at = rows.filter(pk__in=_in_order(rows)[:SCANNED])
        few = looked_at.filter(match_words(text)).order_by()
        return cls(rows, few, looked_at.filter(match_words(text, common=True)))

    def is_cut_short(self) -> bool:
        """Return whether there are rows that it doesn't look at."""
        if has_index(write_alias()):
            return False
        return _in_order(self.rows)[SCANNED : SCANNED + 1].exists()

    def find_early(self, most: int) -> QuerySet[Any]:
        """Return those of the ``many`` that are among the first ``most`` rows."""
        return self.many.filter(pk__in=self.rows.values("pk")[:most]).order_by()

    def find(self, count: int, most: int) -> QuerySet[Any]:
        """Return the rows it finds; ``count`` are the ``few``, counted up to ``most``."""
        if count >= most:
            return self.many
        # The limit is what keeps the planner from thinking of another way.
        return self.rows.filter(pk__in=self.few.values("pk")[:most])


def _in_order(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by(*queue_order()).values("pk")


def match_own(user: Any) -> Q:
    """Match the questions that the user holds, and those that are assigned to them."""
    return Q(claimed_by=user.pk) & CLAIMED | Q(assignee=user.pk)


def match_claimed_by_others(user: Any) -> Q:
    """Match the questions that somebody else holds."""
    return CLAIMED & ~Q(claimed_by=user.pk)


def match_unclaimed(user: Any) -> Q:
    """Match the questions that the user could take.

    They are answerable, awake, held by nobody and assigned to nobody else, nor to a group that the
    user isn't in; and still open to the user's approval.
    """
    groups = Q(group__isnull=True) | Q(group__in=user.groups.order_by().values("pk"))
    assigned = Q(assignee=user.pk) | Q(assignee__isnull=True) & groups
    return assigned & _match_takeable(user)


def split_free(user: Any, groups: Collection[Any], group: Any = None) -> list[Q]:
    """Return the same condition in parts, as ``read_first`` takes them.

    ``groups`` are the keys of the groups that the user is in. With ``group`` (a Group or its key)
    it is only what is free of that.
    """
    theirs = [Q(group=key) for key in groups]
    if group is None:
        theirs.append(Q(group__isnull=True))
    else:
        # Of all others it would look in vain, at every row.
        key = getattr(group, "pk", group)
        theirs = [Q(group=key)] if key in groups else []
    shared = [Q(assignee__isnull=True) & one for one in theirs]
    return [one & _match_takeable(user) for one in (Q(assignee=user.pk), *shared)]


def list_group_keys(user: Any) -> list[Any]:
    """Return the keys of the groups that the user is in."""
    return list(user.groups.order_by().values_list("pk", flat=True))


def match_claimed_by(user: Any) -> Q:
    """Match the questions that the user holds and could decide."""
    return CLAIMED & Q(claimed_by=user.pk) & AWAKE & ANSWERABLE & ~_match_already_approved(user)


def match_waiting_for(user: Any) -> Q:
    """Match what waits for a decision that the user could make, whoever holds it."""
    return PENDING & AWAKE & ~_match_already_approved(user)


def _match_takeable(user: Any) -> Q:
    """Match what waits for a decision that the user could make, whoever it is assigned to."""
    return UNCLAIMED & AWAKE & ANSWERABLE & ~_match_already_approved(user)


def _match_already_approved(user: Any) -> Q:
    """Match what others have to approve: the user has, or started the run themselves."""
    votes = Decision.objects.filter(
        interrupt=OuterRef("pk"), version=OuterRef("version"), by=user.pk
    )
    own = Q(quorum.match_started_by(user, "run"), no_self_approval=True)
    return own | Q(Exists(votes), quorum__gt=1)
