"""Prepared statements for starting a run and for the decision that closes an interrupt.

Other services use the ORM, except for ``claim_next`` (``reviews/claim_queries.py``). These
statements are prepared to save processor time: ``services.decide`` takes 0.8 ms on SQLite, and
4.9 ms if the ORM compiles the four statements below for each decision. The rows of a start or
decision are inserted together with the rest of their batch, so on PostgreSQL they need no
additional round trip. The comments at each call explain the meaning of zero affected rows.
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

#: The run of an interrupt, without the columns that a decision doesn't need.
INTERRUPTED_RUN = RowMapper(
    Run,
    deferred=(
        *Run.LARGE_COLUMNS,
        "options",
        "created_at",
        "queued_at",
        "last_message_at",
        "finished_at",
    ),
)

#: Inserts a run.
NEW_RUN = BulkInsert(Run, [*insertable_columns(Run), "number"], fresh=True)

#: Inserts a run that waits for earlier runs, with its input.
NEW_WAITING_RUN = BulkInsert(Run, [*insertable_columns(Run), "number", "input"], fresh=True)

#: Inserts a decision, with the time and the claim that the decision's audit log entry contains.
NEW_DECISION = BulkInsert(
    Decision,
    [*insertable_columns(Decision), "created_at", "claimed_by_label", "undo_epoch"],
    fresh=True,
)

#: Finds the run that was started with an idempotency key.
KEYED_RUN = PreparedSelect(
    lambda: (
        Run.objects.order_by()
        .filter(
            graph=Parameter("graph", models.CharField()), key=Parameter("key", models.CharField())
        )
        .values_list("pk")
    )
)

#: Locks a thread, unless entries were added to its audit log since it was read.
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

#: Reads, without a row lock, an interrupt with its run, its thread (with the columns that
#: ``leases`` reads) and the responses that its task has received.
QUESTION = PreparedSelect(
    lambda: (
        Interrupt.objects.order_by()
        .filter(pk=_INTERRUPT)
        .annotate(clock=Now())
        .values_list(
            *INTERRUPT.names,
            *INTERRUPTED_RUN.under("run"),
            *THREAD.under("thread"),
            "clock",
            *answer_columns(),
        )
    )
)

#: Closes a pending interrupt, unless the interrupt has changed since it was read.
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

#: Sets the time at which an interrupted run resumes, i.e. when the time limit for an undo has
#: passed.
RESUME_LATER = PreparedUpdate(
    Run,
    _INTERRUPTED,
    lambda: {"resumes_at": Parameter("at", models.DateTimeField())},
)

#: Queues an interrupted run.
RESUME = PreparedUpdate(
    Run,
    _INTERRUPTED,
    lambda: {
        "state": Run.State.QUEUED,
        "queued_at": Now(),
        "last_message_at": Now(),
        "resumes_at": None,
        "last_event": Parameter("last_event", models.PositiveIntegerField()),
    },
)
