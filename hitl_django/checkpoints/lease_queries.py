"""Prepared SQL of the lease on a thread, whoever has it: a worker, or who calls a graph.

What zero rows mean stands at the caller.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from hitl_django.db.prepared_query import Parameter, PreparedSelect, PreparedUpdate
from hitl_django.models import Thread
from hitl_django.models.functions import Now

THREAD = Parameter("thread", models.BigIntegerField())
EPOCH = Parameter("epoch", models.BigIntegerField())
OWNER = Parameter("owner", models.TextField())
#: NULL where the duration is None.
UNTIL = Now() + Parameter("duration", models.DurationField())

FENCED = Q(pk=THREAD, epoch=EPOCH)
_HELD = FENCED & Q(lease_until__isnull=False)

#: Takes a thread for who calls a graph, if its lease is free or run out and nobody had it since the
#: thread was read; ``left`` is the owner whose lease may be taken over.
TAKE = PreparedUpdate(
    Thread,
    Q(pk=THREAD, epoch=EPOCH)
    & (
        Q(lease_until__isnull=True)
        | Q(lease_until__lt=Now())
        | Q(lease_owner=Parameter("left", models.TextField()))
    ),
    lambda: {"epoch": F("epoch") + 1, "lease_owner": OWNER, "lease_until": UNTIL},
)

#: Opens a commit: the thread is still held, and there was progress. The count stays at one and not
#: at none, because this claim goes on to try the next step: a step that kills whoever tries it is
#: tried as often as the limit says, wherever it stands in the graph. A lease that was given back
#: stays so: what a node left running would lease a thread to nobody.
HOLD = PreparedUpdate(Thread, _HELD, lambda: {"lease_until": UNTIL, "attempts": 1})

#: Opens a commit where there are no attempts to set back: the thread is still held. Its row is
#: locked and not written, because a thread of the process extends the lease every few seconds.
CHECK = PreparedSelect(lambda: Thread.objects.order_by().filter(_HELD).values_list("pk"), lock=True)

#: Opens the last commit: as HOLD, and the thread is free.
LET_GO = PreparedUpdate(
    Thread, FENCED, lambda: {"lease_until": None, "lease_owner": "", "attempts": 0}
)

#: As CHECK, and the lease has not run out: nobody who read the thread before can take it.
CHECK_IN_TIME = PreparedSelect(
    lambda: Thread.objects.order_by().filter(_HELD, lease_until__gt=Now()).values_list("pk"),
    lock=True,
)

#: Extends a lease between commits; one that was given back stays so.
RENEW = PreparedUpdate(Thread, _HELD, lambda: {"lease_until": UNTIL})

#: Frees a thread that is left as it is; the count of attempts stays.
FREE = PreparedUpdate(Thread, FENCED, lambda: {"lease_until": None, "lease_owner": ""})
