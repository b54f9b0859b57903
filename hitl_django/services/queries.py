"""Prepared statements of every start and of every decision that closes its question.

Elsewhere the services use the ORM. These stay prepared because of what the ORM costs here: with the
four below compiled anew for each decision, as the ORM does, ``services.decide`` takes 4.9 ms of
processor time on SQLite instead of 0.8 ms. The rows of a start and of a decision are inserted by
the statement that writes the rest of their batch, so on PostgreSQL they take no round trip of their
own. Where zero rows mean something, the caller says what.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from hitl_django.checkpoints.queries import answer_columns
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import NO_STATE, Parameter, PreparedSelect, PreparedUpdate
from hitl_django.db.row_mapper import RowMapper
from hitl_django.leases.queries import THREAD
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.models.review import get_closed_columns

_INTERRUPT = Parameter("interrupt", models.UUIDField())

RUN, INTERRUPT, DECISION = RowMapper(Run), RowMapper(Interrupt), RowMapper(Decision)

#: Begins a run.
NEW_RUN = BulkInsert(Run, [*insertable_columns(Run), "number"], fresh=True)

#: Adds a run that waits for its turn, and its input.
NEW_WAITING_RUN = BulkInsert(Run, [*insertable_columns(Run), "number", "input"], fresh=True)

#: Records a decision, at the moment and over the claim that its audit entry names as well.
NEW_DECISION = BulkInsert(
    Decision,
    [*insertable_columns(Decision), "created_at", "claimed_by_label", "undo_epoch"],
    fresh=True,
)

#: Locks a thread, unless something was added to its record since that was looked at.
LOCK_UNCHANGED = PreparedSelect(
    lambda: (
        Thread.objects.order_by()
        .filter(
            pk=Parameter("thread", models.BigIntegerField()),
            audit_seq=Parameter("seq", models.PositiveIntegerField()),
        )
        .values_list("pk")
    ),
    lock=True,
)

#: Reads a question with its run, its thread as ``leases`` reads it, and what its task has been
#: answered so far; nothing is locked.
QUESTION = PreparedSelect(
    lambda: (
        Interrupt.objects.order_by()
        .filter(pk=_INTERRUPT)
        .annotate(clock=Now())
        .values_list(
            *INTERRUPT.names, *RUN.under("run"), *THREAD.under("thread"), "clock", *answer_columns()
        )
    )
)

#: Closes a question that is open, and still the one that was looked at.
CLOSE = PreparedUpdate(
    Interrupt,
    Q(
        pk=_INTERRUPT,
        status__in=(Interrupt.Status.PENDING, NO_STATE),
        version=Parameter("version", models.PositiveIntegerField()),
        approvals=Parameter("approvals", models.PositiveSmallIntegerField()),
    ),
    lambda: {
        "status": Interrupt.Status.DECIDED,
        **get_closed_columns(),
    },
)

_INTERRUPTED = Q(
    pk=Parameter("run", models.UUIDField()), state__in=(Run.State.INTERRUPTED, NO_STATE)
)

#: Has a run that waits go on later, when what was decided can't be undone any more.
RESUME_LATER = PreparedUpdate(
    Run,
    _INTERRUPTED,
    lambda: {"resumes_at": Parameter("at", models.DateTimeField())},
)

#: Queues a run that waits for an answer.
RESUME = PreparedUpdate(
    Run,
    _INTERRUPTED,
    lambda: {
        "state": Run.State.QUEUED,
        "queued_at": Now(),
        "hinted_at": Now(),
        "resumes_at": None,
        "last_event": Parameter("last_event", models.PositiveIntegerField()),
    },
)
