"""Prepared SQL of leases: the conditional UPDATEs of every claim, super-step and outcome.

The caller explains the meaning of zero rows.
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
    # Sliced, because Django 6.1 takes no other queryset for one value; a run has one thread.
    due = Run.objects.order_by().filter(pk=_RUN, state__in=DUE)
    return models.Subquery(due.values(column)[:1])


def _column(model: type[models.Model], name: str) -> Any:
    return model._meta.get_field(name)


class ClaimedThread(NamedTuple):
    """What a claim returns of the thread."""

    id: int
    thread_id: str
    epoch: int
    attempts: int
    has_interrupts: bool
    subject_id: str


class ClaimedRun(NamedTuple):
    """What a claim returns of the run."""

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
        """Return a row, whose columns come as they are stored."""
        found = cls._make(row)
        return found._replace(
            error=_column(Run, "error").from_db_value(found.error, None, None),
            options=_column(Run, "options").from_db_value(found.options, None, None),
        )


#: Takes the thread of a run that is due, if its lease is free or, as the database sees it at this
#: statement, run out. Where PostgreSQL waits for the thread's row it looks at that row again and at
#: nothing else, so that the run may not be due any more; but then somebody has claimed it
#: meanwhile, which the epoch shows.
CLAIM = PreparedUpdate(
    Thread,
    Q(pk=_due("thread"), epoch=_due("thread__epoch")) & AVAILABLE,
    lambda: {**TAKEN, "attempts": F("attempts") + 1},
    returning=ClaimedThread._fields,
)

#: Sets a claimed run RUNNING.
BEGIN = PreparedUpdate(
    Run,
    Q(pk=_RUN, state__in=DUE),
    lambda: {"state": Run.State.RUNNING},
    returning=ClaimedRun._fields,
)

#: Gives a claim back that came to nothing.
GIVE_BACK = PreparedUpdate(
    Thread,
    IN_EPOCH,
    lambda: {**RELEASED, "attempts": F("attempts") - 1},
)

#: As RELEASE_AFTER_PROGRESS, and the thread has come to rest. Returns whether runs wait for that.
REST = PreparedUpdate(
    Thread,
    IN_EPOCH,
    lambda: {**RELEASED, "attempts": 0, "ended_at": Now()},
    returning=("has_waiting",),
)

#: As RELEASE_AFTER_PROGRESS, and the thread has had an interrupt.
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
        # The checkpoint that is written by the same statement is not there to be read.
        "step": Coalesce(Parameter("step", models.IntegerField()), Subquery(step), F("step")),
        "error": Parameter("error", _column(Run, "error")),
        "traceback": Coalesce(
            Parameter("traceback", _column(Run, "traceback")), F("traceback")
        ),  # None leaves it alone
        "last_event": Parameter("last_event", models.PositiveIntegerField()),
    }


#: Stores why a run is about to be left.
NOTE = PreparedUpdate(
    Run,
    Q(pk=_RUN, state__in=DUE),
    lambda: {"error": Parameter("error", _column(Run, "error"))},
)

_LEAVABLE = Q(pk=_RUN, state__in=DUE)

#: Leaves a run that waits for a person, or that nobody tries any more.
PAUSE = PreparedUpdate(Run, _LEAVABLE, _outcome_columns)
#: Leaves a run that came to its end.
END = PreparedUpdate(Run, _LEAVABLE, lambda: {**_outcome_columns(), "finished_at": Now()})
#: Leaves a run for another worker to go on with.
REQUEUE = PreparedUpdate(
    Run, _LEAVABLE, lambda: {**_outcome_columns(), "queued_at": Now(), "hinted_at": Now()}
)


def _waiting() -> models.QuerySet[Interrupt, Interrupt]:
    return Interrupt.objects.order_by().filter(
        run=_RUN, status__in=(Interrupt.Status.PENDING, NO_STATE)
    )


#: Finds the interrupts of a run that nobody has decided yet.
WAITING = PreparedSelect(lambda: _waiting().values_list("interrupt_id"))


def _claimed() -> models.QuerySet[Run, Any]:
    mine = Q(thread__lease_owner=Parameter("owner", _TEXT))
    return Run.objects.order_by().filter(mine, pk=_RUN).values("thread")


#: Reads what a run that was claimed goes on from: the newest checkpoint of its thread, the writes
#: on top of it, and a row without data for each of its interrupts that waits.
STORED = PreparedSelect(
    lambda: newest_rows(models.Subquery(_claimed()[:1]), empty_rows(_waiting())), CheckpointRow
)

#: Finds which of these interrupts the thread has had before.
KNOWN_INTERRUPTS = PreparedSelect(
    lambda: (
        Interrupt.objects.order_by()
        .filter(thread=_THREAD, interrupt_id__in=[Parameter("interrupts", _TEXT, many=True)])
        .values_list("interrupt_id")
    )
)

#: Inserts interrupts; the thread has none of these ids yet.
INSERT_INTERRUPTS = BulkInsert(Interrupt, insertable_columns(Interrupt), fresh=True)
INTERRUPT_ROW = RowMapper(Interrupt)
