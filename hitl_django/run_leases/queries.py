"""Prepared SQL for the leases of runs, used for each start, super-step and outcome of a run.

Each caller documents the meaning of an UPDATE that changes no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import models
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from hitl_django.checkpoints.queries import CheckpointRow, empty_rows, newest_rows
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import NO_STATE, Parameter, PreparedSelect, PreparedUpdate
from hitl_django.db.row_mapper import RowMapper
from hitl_django.leases.queries import AVAILABLE, IN_EPOCH, RELEASED, TAKEN
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.models.functions import Now

DUE = (Run.State.QUEUED, Run.State.RUNNING, NO_STATE)

_TEXT = models.TextField()
_RUN = Parameter("run", models.UUIDField())
_THREAD = Parameter("thread", models.BigIntegerField())


def _due(column: str) -> models.Subquery:
    # The query is sliced, because Django 6.1 requires a slice for a single value. A run has one
    # thread.
    due = Run.objects.order_by().filter(pk=_RUN, state__in=DUE)
    return models.Subquery(due.values(column)[:1])


def _column(model: type[models.Model], name: str) -> Any:
    return model._meta.get_field(name)


_ERROR, _OPTIONS = _column(Run, "error"), _column(Run, "options")


class ClaimedThread(NamedTuple):
    id: int
    thread_id: str
    epoch: int
    attempts: int
    has_interrupts: bool
    subject_id: str


class ClaimedRun(NamedTuple):
    """The columns of a run that a worker reads when it sets the run to running."""

    graph: str
    graph_version: str
    error: str
    fingerprint: str
    events: str
    last_event: int
    key: str | None
    options: dict[str, Any] | None

    @classmethod
    def read(cls, row: Sequence[Any]) -> ClaimedRun:
        """Return a ClaimedRun with the values of a database row, converted to Python types."""
        found = cls._make(row)
        return found._replace(
            error=_ERROR.from_db_value(found.error, None, None),
            options=_OPTIONS.from_db_value(found.options, None, None),
        )


#: Takes the lease on the thread of a due run, if the lease is free or has expired on the database's
#: clock. If PostgreSQL waits for the thread's row, it rereads only that row, so the run may no
#: longer be due. Another worker has then claimed the run, and the epoch differs.
CLAIM = PreparedUpdate(
    Thread,
    Q(pk=_due("thread"), epoch=_due("thread__epoch")) & AVAILABLE,
    lambda: {**TAKEN, "attempts": F("attempts") + 1},
    returning=ClaimedThread._fields,
)

#: Sets the state of a claimed run to RUNNING.
BEGIN = PreparedUpdate(
    Run,
    Q(pk=_RUN, state__in=DUE),
    lambda: {"state": Run.State.RUNNING},
    returning=ClaimedRun._fields,
)

#: Releases a claim that didn't start.
GIVE_BACK = PreparedUpdate(
    Thread,
    IN_EPOCH,
    lambda: {**RELEASED, "attempts": F("attempts") - 1},
)

#: Like RELEASE_AFTER_PROGRESS, for a run that has ended. Returns whether other runs wait for the
#: thread.
REST = PreparedUpdate(
    Thread,
    IN_EPOCH,
    lambda: {**RELEASED, "attempts": 0, "ended_at": Now()},
    returning=("has_waiting",),
)

#: Like RELEASE_AFTER_PROGRESS, for a thread with an interrupt.
ASK = PreparedUpdate(
    Thread,
    IN_EPOCH,
    lambda: {**RELEASED, "attempts": 0, "has_interrupts": True},
)


def _outcome_columns() -> dict[str, Any]:
    root = Checkpoint.objects.filter(thread=OuterRef("thread"), ns="")
    step = root.order_by("-checkpoint_id").values("step")[:1]
    return {
        "state": Parameter("state", _TEXT),
        # A statement doesn't see the checkpoint that the same statement writes.
        "step": Coalesce(Parameter("step", models.IntegerField()), Subquery(step), F("step")),
        "error": Parameter("error", _ERROR),
        "traceback": Coalesce(
            Parameter("traceback", _column(Run, "traceback")), F("traceback")
        ),  # None keeps the stored value.
        "last_event": Parameter("last_event", models.PositiveIntegerField()),
    }


#: Stores the error before a run is released.
NOTE = PreparedUpdate(
    Run,
    Q(pk=_RUN, state__in=DUE),
    lambda: {"error": Parameter("error", _ERROR)},
)

_LEAVABLE = Q(pk=_RUN, state__in=DUE)

#: Releases a run that is interrupted or parked.
PAUSE = PreparedUpdate(Run, _LEAVABLE, _outcome_columns)
#: Releases a run that has ended.
END = PreparedUpdate(Run, _LEAVABLE, lambda: {**_outcome_columns(), "finished_at": Now()})
#: Releases a run that another worker will continue.
REQUEUE = PreparedUpdate(
    Run, _LEAVABLE, lambda: {**_outcome_columns(), "queued_at": Now(), "last_message_at": Now()}
)
#: Releases a run that another worker will try again after a delay.
RETRY = PreparedUpdate(
    Run,
    _LEAVABLE,
    lambda: {
        **_outcome_columns(),
        "queued_at": Now() + Parameter("delay", models.DurationField()),
        "last_message_at": Now(),
    },
)


def _waiting() -> models.QuerySet[Interrupt, Interrupt]:
    return Interrupt.objects.order_by().filter(
        run=_RUN, status__in=(Interrupt.Status.PENDING, NO_STATE)
    )


#: Finds the pending interrupts of a run.
WAITING = PreparedSelect(lambda: _waiting().values_list("interrupt_id"))


def _claimed() -> models.QuerySet[Thread, Any]:
    # The run isn't joined with its thread. PostgreSQL would search the threads by their owner, and
    # read the whole table if the plan is from a time without statistics.
    run = Run.objects.order_by().filter(pk=_RUN).values("thread")
    return (
        Thread.objects.order_by()
        .filter(pk=models.Subquery(run[:1]), lease_owner=Parameter("owner", _TEXT))
        .values("pk")
    )


#: Reads the data to continue a claimed run: the newest checkpoint of its thread, the writes based
#: on the checkpoint, and a row without data for each pending interrupt.
STORED = PreparedSelect(
    lambda: newest_rows(models.Subquery(_claimed()[:1]), empty_rows(_waiting())), CheckpointRow
)

#: Finds which of the given interrupts the thread has had before.
KNOWN_INTERRUPTS = PreparedSelect(
    lambda: (
        Interrupt.objects.order_by()
        .filter(thread=_THREAD, interrupt_id__in=[Parameter("interrupts", _TEXT, many=True)])
        .values_list("interrupt_id")
    )
)

#: Inserts interrupts. The thread must not have interrupts with these ids.
INSERT_INTERRUPTS = BulkInsert(Interrupt, insertable_columns(Interrupt), fresh=True)
INTERRUPT_ROW = RowMapper(Interrupt)
