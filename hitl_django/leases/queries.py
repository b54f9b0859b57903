"""Prepared SQL for the leases of workers and direct graph calls on threads.

Each caller documents the meaning of an UPDATE that changes no row.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import F, Q, Subquery

from hitl_django.db.prepared_query import Parameter, PreparedSelect, PreparedUpdate
from hitl_django.db.row_mapper import RowMapper
from hitl_django.models import Interrupt, Thread
from hitl_django.models.functions import Now, TimeFromNow

_BIG, _TEXT = models.BigIntegerField(), models.TextField()
_THREAD, _OWNER = Parameter("thread", _BIG), Parameter("owner", _TEXT)
#: NULL if the duration is None.
_UNTIL = TimeFromNow(Parameter("duration", models.DurationField()))

#: Threads without a lease, or with a lease that has expired on the database's clock.
AVAILABLE = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
#: The thread in an epoch, and the thread in an epoch while the lease isn't released.
IN_EPOCH = Q(pk=_THREAD, epoch=Parameter("epoch", _BIG))
_LEASED = IN_EPOCH & Q(lease_until__isnull=False)

#: Columns for taking a lease and for releasing a lease.
TAKEN: dict[str, Any] = {"epoch": F("epoch") + 1, "lease_owner": _OWNER, "lease_until": _UNTIL}
RELEASED: dict[str, Any] = {"lease_until": None, "lease_owner": ""}

#: Takes the lease for a direct call, unless another process has had the lease since the thread was
#: read. ``seen`` is the owner of an expired lease. ``left`` is the owner whose lease may be taken
#: over.
TAKE = PreparedUpdate(
    Thread,
    IN_EPOCH
    & Q(lease_owner=Parameter("seen", _TEXT))
    & (AVAILABLE | Q(lease_owner=Parameter("left", _TEXT))),
    lambda: TAKEN,
)

#: The first statement of a commit without attempts to reset. It finds a row only if the lease has
#: not expired, so that no process that has read the thread can take the lease. The row is locked
#: without an update, because an OS thread renews the lease every few seconds.
FENCE = PreparedSelect(
    lambda: Thread.objects.order_by().filter(_LEASED, lease_until__gt=Now()).values_list("pk"),
    lock=True,
)

#: Extends a lease, unless it was released. Otherwise, a late write or renewal after the last commit
#: would create a lease without an owner.
RENEW = PreparedUpdate(Thread, _LEASED, lambda: {"lease_until": _UNTIL})

#: Like RENEW, after progress. The count of attempts is set to one instead of zero, because this
#: claim will also try the next super-step. A super-step that kills its worker is therefore tried
#: equally often at any position in the graph.
RENEW_AFTER_PROGRESS = PreparedUpdate(
    Thread, _LEASED, lambda: {"lease_until": _UNTIL, "attempts": 1}
)

#: Releases a lease without progress. The count of attempts is kept.
RELEASE = PreparedUpdate(Thread, IN_EPOCH, lambda: RELEASED)

#: The first statement of the last commit, which releases a lease after progress.
RELEASE_AFTER_PROGRESS = PreparedUpdate(Thread, IN_EPOCH, lambda: {**RELEASED, "attempts": 0})

#: A locked thread with the database's ``now``.
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


#: Locks the thread of an interrupt.
LOCK_OF = PreparedSelect(
    # The query is sliced, because Django 6.1 requires a slice for a single value.
    lambda: (
        _threads()
        .filter(pk=Subquery(_thread_of_interrupt()[:1]))
        .values_list(*THREAD.names, "clock")
    ),
    lock=True,
)
