"""Services of schedules: create, change, pause, resume and delete."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from hitl_django import audit
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored, to_utc
from hitl_django.engine.errors import EmptyInputError, InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models.functions import Now
from hitl_django.permissions import find_row, get_policy, may_start, select_visible
from hitl_django.services.results import read_fields
from hitl_django.services.runs.options import KEPT, RunOptions
from hitl_django.services.runs.state import find_thread, refuse_unless_visible
from hitl_django.services.runs.threads import check_metadata

from . import cron
from .cron import Cron
from .due_times import build_run_metadata, find_next, read_now, select_schedules
from .errors import CodeDefinedScheduleError, ScheduleNotFound
from .models import Schedule
from .registered import OVERLAPS, list_registered

logger = logging.getLogger("hitl_django")

#: Permission to create, change and delete schedules.
MANAGE = "hitl_schedules.manage_schedules"
DESCRIPTION_LENGTH = 255
#: Keys that ``change_schedule`` accepts. Changing any of them except ``is_active`` changes the
#: owner.
CHANGEABLE = frozenset(
    {
        "expression", "timezone", "input", "context", "configurable", "metadata", "overlap",
        "description", "ends_at", "is_active",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule.

    ``next_at`` is its next due time, or None if the schedule is paused.
    """

    id: UUID
    graph: str
    description: str
    expression: str
    timezone: str
    input: Any
    thread_id: str | None
    metadata: dict[str, Any]
    overlap: str
    is_registered: bool
    is_active: bool
    next_at: datetime | None
    ends_at: datetime | None
    started: int
    last_due_at: datetime | None
    last_run_id: UUID | None
    skipped: int
    last_skipped_at: datetime | None
    last_error: str
    owner_label: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_row(cls, row: Schedule) -> ScheduleInfo:
        shown = read_fields(cls, row)
        return cls(**{**shown, "input": registry.mask_values(row.graph, row.input)})


def create_schedule(
    graph: str,
    expression: str,
    input: Any,  # noqa: A002  (the engine's word)
    *,
    context: Any = None,
    configurable: dict[str, Any] | None = None,
    thread_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    timezone: str | None = None,
    overlap: str = "skip",
    ends_at: datetime | None = None,
    description: str = "",
    is_active: bool = True,
    by: Any = None,
) -> ScheduleInfo:
    """Create a schedule, which starts runs of a graph.

    The sweep starts a run at each due time, on behalf of ``by``, as long as this user may start the
    graph.

    Args:
        expression: a cron expression with five fields, in the local time of ``timezone``.
        input: a JSON value.
        context, configurable: as for ``start``.
        thread_id: the thread of all runs, by default a new thread for each run.
        metadata: metadata of each run and of new threads, a JSON object.
        timezone: the name of a time zone, by default Django's TIME_ZONE.
        overlap: "skip" skips a due time while the last run, or any run of the thread ``thread_id``,
            is active. "allow" starts another run, which waits for earlier runs of its thread.
        ends_at: the end of the schedule. No runs are started after this time.

    Raises:
        NotAllowedError: if ``by`` may not manage schedules, start the graph, or see the thread of a
            run that ``by`` may see.
        NoSuchThread: if the thread doesn't exist, or ``by`` may see neither the thread nor any of
            its runs.
        UnknownGraphError: if the graph isn't registered.
        EmptyInputError: if the input is None.
        InvalidInputError: if an argument is not valid, or the thread belongs to another graph.
    """
    _refuse_unless_may_manage(by)
    _refuse_unless_may_start(by, graph)
    given = {
        "expression": expression,
        "timezone": settings.TIME_ZONE if timezone is None else timezone,
        "input": input,
        "context": context,
        "configurable": configurable,
        "metadata": {} if metadata is None else metadata,
        "overlap": overlap,
        "ends_at": ends_at,
        "description": description,
    }
    values = _check_values(graph, given)
    if thread_id is not None:
        _refuse_unless_fitting(thread_id, graph, by)
    row = Schedule(
        **values,
        graph=graph,
        thread_id=thread_id,
        is_active=is_active,
        owner=by,
        owner_label=audit.label_user(by),
    )
    row.next_at = find_next(Cron(row.expression, row.timezone), row.ends_at)
    row.save(using=write_alias(), force_insert=True)
    _log("created", row.pk, by)
    row.refresh_from_db(write_alias())
    return ScheduleInfo.from_row(row)


def change_schedule(schedule_id: UUID | str, *, by: Any = None, **changes: Any) -> ScheduleInfo:
    """Change the values that were given to ``create_schedule``, except the graph and the thread.

    ``is_active`` pauses or resumes the schedule. No runs are started for due times before the
    change. A user who changes any other value becomes the owner, i.e. the user on whose behalf runs
    are started. A schedule that is defined in code can only be paused and resumed.
    """
    row = _find_managed(schedule_id, by)
    if unknown := changes.keys() - CHANGEABLE:
        raise TypeError(f"Unknown schedule fields: {', '.join(sorted(unknown))}.")
    if changes.keys() - {"is_active"}:
        if row.is_registered:
            raise CodeDefinedScheduleError
        _refuse_unless_may_start(by, row.graph)
    is_active = changes.pop("is_active", row.is_active)
    values = _check_values(row.graph, changes)
    if values:
        values |= {"owner": by, "owner_label": audit.label_user(by)}
    rule = Cron(values.get("expression", row.expression), values.get("timezone", row.timezone))
    resumes = is_active and not row.is_active
    if resumes or "ends_at" in values or rule != Cron(row.expression, row.timezone):
        values["next_at"] = find_next(rule, values.get("ends_at", row.ends_at))
    values |= {"is_active": is_active, "updated_at": Now()}
    if not select_schedules().filter(pk=row.pk).update(**values):
        raise ScheduleNotFound  # The schedule was deleted since it was read.
    _log("changed", row.pk, by)
    row.refresh_from_db(write_alias())
    return ScheduleInfo.from_row(row)


def delete_schedule(schedule_id: UUID | str, *, by: Any = None) -> None:
    """Delete a schedule.

    Runs that the schedule has started continue. A schedule that is defined in code can't be
    deleted, because the next sweep would create it again. Pause the schedule instead.
    """
    row = _find_managed(schedule_id, by)
    if row.is_registered and row.graph in list_registered():
        raise CodeDefinedScheduleError
    row.delete(using=write_alias())
    _log("deleted", schedule_id, by)


def _log(verb: str, schedule_id: UUID | str, by: Any) -> None:
    fields = {"schedule_id": str(schedule_id)}
    logger.info("schedule %s %s by %s", schedule_id, verb, _name(by), extra=fields)


def _check_values(graph: str, given: dict[str, Any]) -> dict[str, Any]:
    faults = []
    if "input" in given:
        if given["input"] is None:
            raise EmptyInputError
        registry.get_graph(graph).graph.validate_input(given["input"])
    chosen = {name: given[name] for name in KEPT if name in given}
    if chosen:
        stored = RunOptions(**chosen).encode(registry.get_graph(graph)) or {}
        given = {**given, **{name: stored.get(name) for name in chosen}}
    if "metadata" in given:
        _check_metadata(given["metadata"])
    for name, find_fault in _FAULTS.items():
        if name in given and (fault := find_fault(given[name])):
            faults.append((name, fault))
    if faults:
        what, reason = faults[0]
        raise InvalidInputError(f"Schedule {what} {reason}.", faults)
    if "description" in given:
        given = {**given, "description": escape_unstorable(given["description"])}
    if given.get("ends_at") is not None:
        given = {**given, "ends_at": to_stored(given["ends_at"])}
    return given


def _check_metadata(metadata: dict[str, Any]) -> None:
    check_metadata(metadata)
    check_metadata(build_run_metadata(metadata, uuid4(), read_now()))


def _find_overlap_fault(overlap: str) -> str:
    return "" if overlap in OVERLAPS else f"is one of {', '.join(OVERLAPS)}"


def _find_description_fault(text: str) -> str:
    too_long = len(escape_unstorable(text)) > DESCRIPTION_LENGTH
    return f"is longer than {DESCRIPTION_LENGTH} characters" if too_long else ""


def _find_end_fault(ends_at: datetime | None) -> str:
    if ends_at is None:
        return ""
    return "is in the past" if to_utc(to_stored(ends_at)) <= read_now() else ""


_FAULTS: dict[str, Callable[[Any], str]] = {
    "expression": cron.find_expression_fault,
    "timezone": cron.find_timezone_fault,
    "overlap": _find_overlap_fault,
    "ends_at": _find_end_fault,
    "description": _find_description_fault,
}


def _find_managed(schedule_id: UUID | str, by: Any) -> Schedule:
    row = find_row(select_visible(select_schedules(), by), ScheduleNotFound, pk=schedule_id)
    _refuse_unless_may_manage(by)
    return row


def _refuse_unless_fitting(thread_id: str, graph: str, by: Any) -> None:
    thread = find_thread(thread_id, None)
    refuse_unless_visible(thread, by)
    if thread.graph not in ("", graph):
        raise InvalidInputError(
            f"Thread {thread_id!r} belongs to graph {thread.graph!r}.",
            [("thread_id", f"belongs to graph {thread.graph!r}")],
        )


def _refuse_unless_may_manage(by: Any) -> None:
    if by is not None and not get_policy().has_permission(by, MANAGE):
        raise NotAllowedError("You don't have permission to manage schedules.")


def _refuse_unless_may_start(by: Any, graph: str) -> None:
    if by is not None and not may_start(by, graph, "api"):
        raise NotAllowedError(f"You don't have permission to start runs of graph {graph!r}.")


def _name(by: Any) -> Any:
    return audit.SYSTEM if by is None else by.pk
