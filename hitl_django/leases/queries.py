"""Prepared SQL of the lease on a thread, of workers and of direct calls.

The caller explains the meaning of zero rows.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import F, Q, Subquery

from hitl_django.db.prepared_query import Parameter, PreparedSelect, PreparedUpdate
from hitl_django.db.row_mapper import RowMapper
from hitl_django.models import Interrupt, Thread
from hitl_django.models.functions import Now

_BIG, _TEXT = models.BigIntegerField(), models.TextField()
_THREAD, _OWNER = Parameter("thread", _BIG), Parameter("owner", _TEXT)
#: NULL where the duration is None.
_UNTIL = Now() + Parameter("duration", models.DurationField())

#: Threads that can be taken: without a lease, or with one that has run out as the database sees it.
AVAILABLE = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
#: The thread in an epoch, and the thread while that epoch's lease isn't released.
IN_EPOCH = Q(pk=_THREAD, epoch=Parameter("epoch", _BIG))
_LEASED = IN_EPOCH & Q(lease_until__isnull=False)

#: Columns of a thread that is taken, and of one that is released.
TAKEN: dict[str, Any] = {"epoch": F("epoch") + 1, "lease_owner": _OWNER, "lease_until": _UNTIL}
RELEASED: dict[str, Any] = {"lease_until": None, "lease_owner": ""}

#: Takes a thread for a direct call, if nobody had it since it was read: the owner of a lease that
#: had run out is the one ``seen``, unless its run has ended since. ``left`` is the owner whose
#: lease may be taken over.
TAKE = PreparedUpdate(
    Thread,
    IN_EPOCH
    & Q(lease_owner=Parameter("seen", _TEXT))
    & (AVAILABLE | Q(lease_owner=Parameter("left", _TEXT))),
    lambda: TAKEN,
)

#: Opens a commit where there are no attempts to reset: the lease has not run out, so that nobody
#: who read the thread before can take it. Its row is locked and not written, because a thread of
#: the process extends the lease every few seconds.
FENCE = PreparedSelect(
    lambda: Thread.objects.order_by().filter(_LEASED, lease_until__gt=Now()).values_list("pk"),
    lock=True,
)

#: Extends a lease. One that was released stays so: a node's leftover, or a renewal just after the
#: last commit, would lease the thread to nobody, and whatever comes next would wait for that.
RENEW = PreparedUpdate(Thread, _LEASED, lambda: {"lease_until": _UNTIL})

#: As RENEW, after progress. The count of attempts is one and not zero, because this claim goes on
#: to try the next step: a step that kills its worker is tried as often as the limit says, wherever
#: it is in the graph.
RENEW_AFTER_PROGRESS = PreparedUpdate(
    Thread, _LEASED, lambda: {"lease_until": _UNTIL, "attempts": 1}
)

#: Releases a thread that is left as it is; the count of attempts stays.
RELEASE = PreparedUpdate(Thread, IN_EPOCH, lambda: RELEASED)

#: Opens the last commit: releases a thread after progress.
RELEASE_AFTER_PROGRESS = PreparedUpdate(Thread, IN_EPOCH, lambda: {**RELEASED, "attempts": 0})

#: A locked thread, with the database's ``now``.
THREAD = RowMapper(Thread, now=models.DateTimeField())


def _threads() -> models.QuerySet[Thread]:
    return Thread.objects.order_by().annotate(clock=Now())


#: Locks a thread.
LOCK = PreparedSelect(
    lambda: _threads().filter(pk=_THREAD).values_list(*THREAD.names, "clock"), lock=True
)


def _thread_of_interrupt() -> models.QuerySet[Interrupt, Any]:
    key = Parameter("interrupt", models.UUIDField())
    return Interrupt.objects.order_by().filter(pk=key).values("thread")


#: Locks the thread that a question belongs to.
LOCK_OF = PreparedSelect(
    # Sliced, because Django 6.1 takes no other queryset for one value.
    lambda: (
        _threads()
        .filter(pk=Subquery(_thread_of_interrupt()[:1]))
        .values_list(*THREAD.names, "clock")
    ),
    lock=True,
)
