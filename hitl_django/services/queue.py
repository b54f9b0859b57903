"""Which of the waiting questions are whose: the conditions of the queue's filters and counts.

All are on the clock of the database. A claim or a snooze whose time is past counts as none.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from hitl_django import dispatch
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.models.words import has_words
from hitl_django.policy import get_policy

from . import agreement

PENDING = Q(status=Interrupt.Status.PENDING)
HELD = Q(claimed_until__gt=Now())
UNHELD = Q(claimed_until__isnull=True) | Q(claimed_until__lte=Now())
SNOOZED = Q(snoozed_until__gt=Now())
AWAKE = Q(snoozed_until__isnull=True) | Q(snoozed_until__lte=Now())
#: The flag is what the index knows; the clock knows of those that the sweep hasn't seen yet.
OVERDUE = Q(overdue=True) | Q(overdue=False, due_at__lte=Now())
#: Of a run that has stopped otherwise, no answer is taken before somebody lets it go on.
ANSWERABLE = Q(run__state__in=Run.ANSWERABLE)


def waiting(user: Any) -> QuerySet[Interrupt]:
    """Returns the open questions that the user may see; None sees all."""
    rows = Interrupt.objects.using(dispatch.alias()).filter(PENDING).order_by()
    return rows if user is None else get_policy().visible_interrupts(user, rows)


def matching(text: str, *, common: bool = False) -> Q:
    """Selects the questions whose titles have words that begin with those of the text.

    ``common`` says that there are many of them.
    """
    return has_words("title", text, dispatch.alias(), common=common)


def mine(user: Any) -> Q:
    """Selects what the user holds, and what is assigned to them."""
    return Q(claimed_by=user.pk) & HELD | Q(assignee=user.pk)


def held_by_others(user: Any) -> Q:
    """Selects what somebody else holds."""
    return HELD & ~Q(claimed_by=user.pk)


def free_for(user: Any) -> Q:
    """Selects what the user could take: answerable, awake, held by nobody and assigned to nobody
    else, nor to a group that the user isn't in; and still open to their approval.
    """
    groups = Q(group__isnull=True) | Q(group__in=user.groups.order_by().values("pk"))
    assigned = Q(assignee=user.pk) | Q(assignee__isnull=True) & groups
    return UNHELD & AWAKE & assigned & ANSWERABLE & ~_spent(user)


def _spent(user: Any) -> Q:
    """Selects what others have to approve: the user has, or started the run themselves."""
    votes = Decision.objects.filter(
        interrupt=OuterRef("pk"), version=OuterRef("version"), by=user.pk
    )
    own = Q(agreement.started_by(user, "run"), no_self_approval=True)
    return own | Q(Exists(votes), quorum__gt=1)
