"""The sweep step that starts the runs of due schedules."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Min, QuerySet
from django.db.models.expressions import Combinable

from hitl_django import audit
from hitl_django.conf import hitl
from hitl_django.db import outages
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored, to_utc
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import GraphDefinitionError, HitlError, NoSuchThread, NotAllowedError
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Run, Thread
from hitl_django.models.functions import Now
from hitl_django.permissions import may_start
from hitl_django.services.runs.archives import is_archived
from hitl_django.services.runs.options import RunOptions
from hitl_django.services.runs.start import is_erased, start

from .cron import Cron
from .due_times import build_run_metadata, find_next, find_next_after, read_now, select_schedules
from .models import Schedule
from .registered import RegisteredSchedule, list_registered

logger = logging.getLogger("hitl_django")

#: Value of ``via`` for the started runs.
VIA = "schedule"
#: Maximum number of missed due times that are counted together.
MAX_COUNTED = 1000


def start_due() -> list[UUID]:
    """Start a run for each schedule that is due, up to the size of a batch. Return the runs' ids.

    Schedules that are defined in code are updated first. If several due times of a schedule were
    missed, only the newest gets a run. The earlier due times count as skipped.
    """
    _sync_registered()
    due = select_due().order_by("next_at").values_list("pk", flat=True)
    started = []
    for pk in due[: hitl.SWEEP_BATCH]:
        try:
            run_id = _start_one(pk)
        except Exception:
            # This is usually a database error. The schedule stays due, and other schedules are
            # processed.
            fields = {"schedule_id": str(pk)}
            logger.exception("schedule %s could not be processed", pk, extra=fields)
            continue
        if run_id is not None:
            started.append(run_id)
    return started


def find_overdue_since(late: Combinable) -> datetime | None:
    """Return the earliest due time before ``late`` that has no run yet, or None."""
    found: datetime | None = (
        select_due().filter(next_at__lt=late).aggregate(at=Min("next_at"))["at"]
    )
    return found


def select_due() -> QuerySet[Schedule]:
    return select_schedules().filter(is_active=True, next_at__lte=Now())


@dataclass(frozen=True, slots=True)
class _DueTime:
    """A due time of a schedule. A run is started for this due time.

    The instance also has the number of earlier due times that were skipped, and the next due time.
    """

    at: datetime
    missed: int
    #: The last skipped due time, or None.
    missed_at: datetime | None
    #: The next due time as Django stores it, or None.
    following: datetime | None


@retry_on_conflict
def _start_one(pk: UUID) -> UUID | None:
    """Start the run of a schedule that is due, and return the run's id.

    The schedule's next due time is set in the same transaction. Return None if no run is started,
    for example because another sweep was faster.
    """
    with transaction.atomic(using=write_alias()):
        # A sweep that has locked the row is processing the same due time, so there is no need to
        # wait.
        free = select_due().select_for_update(skip_locked=True, no_key=True, of=("self",))
        row = free.select_related("owner").filter(pk=pk).first()
        if row is None:
            return None
        due = _find_due_time(row)
        # The condition guarantees a single run, because the row no longer matches after the UPDATE.
        # Zero rows: another sweep was faster, or the schedule was changed or paused.
        moved = {"next_at": due.following, "last_due_at": to_stored(due.at)}
        if not select_due().filter(pk=pk).update(**moved):
            return None

        changes: dict[str, Any] = {}
        skipped, skipped_at, run_id = due.missed, due.missed_at, None
        if _may_start_another(row):
            run_id, changes["last_error"] = _start_run(row, due.at)
        if run_id is None:
            skipped, skipped_at = due.missed + 1, due.at
        else:
            changes |= {"last_run_id": run_id, "started": F("started") + 1}
        if skipped:
            changes |= {
                "skipped": F("skipped") + skipped,
                "last_skipped_at": None if skipped_at is None else to_stored(skipped_at),
            }
            fields = {"schedule_id": str(pk)}
            logger.info("schedule %s: due times skipped: %s", pk, skipped, extra=fields)
        if changes:
            select_schedules().filter(pk=pk).update(**changes)
        return run_id


def _find_due_time(row: Schedule) -> _DueTime:
    assert row.next_at is not None
    rule, now, first = Cron(row.expression, row.timezone), read_now(), to_utc(row.next_at)
    until = now if row.ends_at is None else min(now, to_utc(row.ends_at))
    # The time is extrapolated from the last reading and may be slightly behind the database's
    # clock.
    newest = max(first, rule.find_newest(until) or first)
    between = takewhile(lambda each: each < newest, rule.iterate(first))
    missed = [] if newest == first else [first, *islice(between, MAX_COUNTED)]
    following = find_next_after(rule, max(now, newest), row.ends_at)
    return _DueTime(newest, len(missed), missed[-1] if missed else None, following)


def _may_start_another(row: Schedule) -> bool:
    if row.overlap == Schedule.Overlap.ALLOW:
        return True
    runs = Run.objects.using(write_alias())
    if row.thread_id is not None:
        unfinished = runs.filter(thread__thread_id=row.thread_id, state__in=Run.NOT_ENDED)
        return not unfinished.exists()
    if row.last_run_id is None:
        return True
    return not runs.filter(pk=row.last_run_id, state__in=Run.ACTIVE).exists()


@retry_on_conflict
def _start_run(row: Schedule, due_at: datetime) -> tuple[UUID | None, str]:
    """Start the run of a due time.

    Return the run's id and an empty string or, if no run was started, None and the reason.
    """
    metadata = build_run_metadata(row.metadata, row.pk, due_at)
    try:
        with transaction.atomic(using=write_alias()):
            _refuse_unless_wanted(row)
            run = start(
                row.graph,
                row.input,
                context=row.context,
                configurable=row.configurable,
                by=row.owner,
                via=VIA,
                # The key includes a number, because the same time may be due twice in a project's
                # test.
                key=f"schedule:{row.pk}:{row.started + 1}:{metadata['due_at']}",
                thread_id=row.thread_id,
                on_pending="wait" if row.overlap == Schedule.Overlap.ALLOW else "refuse",
                metadata=metadata,
                options=RunOptions(metadata=metadata),
            )
    except outages.ERRORS:
        raise  # This is an error of the database, not of the schedule.
    except Exception as error:  # The project's code may raise any exception for the input.
        logger.warning(
            "schedule %s could not start a run: %s",
            row.pk,
            type(error).__name__,
            extra={"schedule_id": str(row.pk), "graph": row.graph},
        )
        words = str(error) if isinstance(error, HitlError) else f"{type(error).__name__}: {error}"
        return None, escape_unstorable(words)
    return run.id, ""


def _refuse_unless_wanted(row: Schedule) -> None:
    """Raise an error if the schedule may no longer start a run.

    This is the case if the code no longer defines the schedule, the owner may no longer start the
    graph, or the thread was deleted or erased.
    """
    if row.thread_id is not None:
        _refuse_unless_kept(row.thread_id)
    if row.is_registered:
        if row.graph not in list_registered():
            raise GraphDefinitionError(f"The graph {row.graph!r} isn't scheduled in code any more.")
    elif row.owner is None and row.owner_label != audit.SYSTEM:
        raise NotAllowedError("The owner's account no longer exists.")
    elif row.owner is not None and not may_start(row.owner, row.graph, "api"):
        raise NotAllowedError(
            f"The owner doesn't have permission to start runs of graph {row.graph!r}."
        )


def _refuse_unless_kept(thread_id: str) -> None:
    thread = Thread.objects.using(write_alias()).filter(thread_id=thread_id).first()
    if thread is None and not is_archived(thread_id):
        raise NoSuchThread("The thread no longer exists.")
    if thread is not None and is_erased(thread):
        raise NoSuchThread("The contents of the thread were erased.")


def _sync_registered() -> None:
    """Update the rows of schedules that are defined in code.

    A paused schedule remains paused.
    """
    registered = list_registered()
    if not registered:
        return
    rows = select_schedules().filter(is_registered=True, graph__in=registered)
    known = {row.graph: row for row in rows}
    for graph, said in registered.items():
        try:
            _sync_one(graph, said, known.get(graph))
        except Exception:
            logger.exception("could not update the schedule of graph %r", graph)


def _sync_one(graph: str, said: RegisteredSchedule, row: Schedule | None) -> None:
    named = said.timezone or settings.TIME_ZONE
    values = {"expression": said.expression, "timezone": named}
    others = {"input": said.input, "context": said.context, "overlap": said.overlap}
    if row is not None:
        if any(getattr(row, name) != value for name, value in values.items()):
            others |= {**values, "next_at": find_next(Cron(**values))}
        changes = {name: value for name, value in others.items() if getattr(row, name) != value}
        if changes:
            select_schedules().filter(pk=row.pk).update(**changes, updated_at=Now())
        return
    # If several sweeps find no row, the unique constraint lets only one of them insert it.
    select_schedules().get_or_create(
        graph=graph,
        is_registered=True,
        defaults={
            **values,
            **others,
            "next_at": find_next(Cron(**values)),
            "owner_label": audit.SYSTEM,
        },
    )
