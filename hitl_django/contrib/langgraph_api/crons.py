"""Views of crons, which are the schedules of the app ``hitl_django.contrib.schedules``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db.models import F, OrderBy, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django.api import querysets
from hitl_django.api.operations import operation
from hitl_django.contrib.schedules import services
from hitl_django.contrib.schedules.due_times import select_schedules
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.db.json_contains import JSONContains
from hitl_django.errors import InvalidInputError
from hitl_django.graph_registry import registry
from hitl_django.permissions import select_visible

from .bodies import CRON_ORDERS, CronBody, CronChangeBody, CronCountBody, CronSearchBody
from .documents import build_assistant_id, select_keys, serialize_datetime
from .not_supported import NotSupported
from .resource import AgentResource
from .run_config import read_configurable
from .run_requests import drop_unknown_fields
from .stored_assistants import find_assistant, find_built_in, is_built_in

DEFAULT_ROWS = 10
#: Fields of a body, by the arguments of the services.
FIELDS = {
    "expression": "schedule",
    "timezone": "timezone",
    "ends_at": "end_time",
    "input": "input",
    "context": "context",
    "is_active": "enabled",
}
#: Places of errors in a body, by the arguments of the services.
PLACES = {**FIELDS, "configurable": "config.configurable", "thread_id": "assistant_id"}


class CronList(AgentResource):
    """View that creates crons.

    Each run of a cron gets a new thread or, if the URL contains a thread, uses this thread.
    """

    input_pointer = "/input"

    @operation("create_cron", body=CronBody, responses={})
    def post(self, request: Request, thread_id: str | None = None) -> Response:
        body = self.read_body()
        assistant = find_assistant(request.user, body["assistant_id"])
        if not is_built_in(assistant):
            raise NotSupported("Crons are supported for built-in assistants only.")
        graph = assistant.graph
        if thread_id is not None:
            self.find(querysets.visible_threads, thread_id=thread_id)
        # Runs on new threads can't be in each other's way.
        waits = thread_id is None or body.get("multitask_strategy") == "enqueue"
        # Clients expect UTC, not the time zone of the project.
        values = {"input": {}, "timezone": "UTC", **read_values(graph, body)}
        with locate_errors():
            made = services.create_schedule(
                graph,
                thread_id=thread_id,
                overlap="allow" if waits else "skip",
                by=request.user,
                **values,
            )
        # The user created the cron, so it is returned even without the permission to view it.
        return Response(build_cron(select_schedules().get(pk=made.id)))


class CronDetail(AgentResource):
    """View that changes or deletes a cron."""

    input_pointer = "/input"

    @operation("change_cron", body=CronChangeBody, responses={})
    def patch(self, request: Request, cron_id: UUID) -> Response:
        body = self.read_body()
        row = self.find(select_crons, pk=cron_id)
        with locate_errors():
            values = read_values(row.graph, body)
            services.change_schedule(cron_id, by=request.user, **values)
        return Response(build_cron(self.find(select_crons, pk=cron_id)))

    @operation("delete_cron", responses={})
    def delete(self, request: Request, cron_id: UUID) -> Response:
        services.delete_schedule(cron_id, by=request.user)
        return Response(status=204)


class CronSearch(AgentResource):
    """View that searches for crons. By default, the newest crons come first."""

    @operation("search_crons", body=CronSearchBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        column = F(CRON_ORDERS[body.get("sort_by", "created_at")])
        is_ascending = body.get("sort_order") == "asc"
        rows = _filter(request.user, body).order_by(
            OrderBy(column, descending=not is_ascending, nulls_last=True),
            OrderBy(F("pk"), descending=not is_ascending),
        )
        start, limit = body.get("offset", 0), body.get("limit", DEFAULT_ROWS)
        page = list(rows[start : start + limit + 1])
        headers = {"X-Pagination-Next": str(start + limit)} if len(page) > limit else None
        select = body.get("select", [])
        shown = [select_keys(build_cron(row), select) for row in page[:limit]]
        return Response(shown, headers=headers)


class CronCount(AgentResource):
    """View of the number of crons that match a filter."""

    @operation("count_crons", body=CronCountBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        return Response(_filter(request.user, self.read_body()).count())


def select_crons(user: Any) -> QuerySet[Schedule]:
    return select_visible(select_schedules(), user)


def read_values(graph: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the values in a body as arguments of ``create_schedule`` or ``change_schedule``."""
    values = {name: body[field] for name, field in FIELDS.items() if field in body}
    if "input" in values:
        values["input"] = drop_unknown_fields(graph, values["input"])
    config = body.get("config", {})
    if "configurable" in config:
        values["configurable"] = read_configurable(config)
    if "metadata" in body or "metadata" in config:
        values["metadata"] = {**config.get("metadata", {}), **body.get("metadata", {})}
    return values


@contextmanager
def locate_errors() -> Iterator[None]:
    """Convert argument names in errors of the services to names of fields in the request body."""
    try:
        yield
    except InvalidInputError as error:
        faults = [(_find_place(path), reason) for path, reason in error.faults]
        raise InvalidInputError(str(error), faults) from error


def _find_place(path: str) -> str:
    name, dot, rest = path.partition(".")
    return f"{PLACES.get(name, name)}{dot}{rest}"


def _filter(user: Any, body: Mapping[str, Any]) -> QuerySet[Schedule]:
    rows = select_crons(user)
    if "assistant_id" in body:
        assistant_id = body["assistant_id"]
        rows = rows.filter(graph=find_built_in(assistant_id) or assistant_id)
    if "thread_id" in body:
        rows = rows.filter(thread_id=body["thread_id"])
    if "enabled" in body:
        rows = rows.filter(is_active=body["enabled"])
    if body.get("metadata"):
        rows = rows.filter(JSONContains("metadata", body["metadata"]))
    return rows


def build_cron(row: Schedule) -> dict[str, Any]:
    """Return a schedule in the clients' format, without its context, config and secrets."""
    assistant_id = build_assistant_id(row.graph)
    payload = {
        "assistant_id": assistant_id,
        "schedule": row.expression,
        "input": registry.mask_values(row.graph, row.input),
    }
    if row.thread_id is not None:
        waits = row.overlap == Schedule.Overlap.ALLOW
        payload["multitask_strategy"] = "enqueue" if waits else "reject"
    return {
        "cron_id": str(row.pk),
        "assistant_id": assistant_id,
        "thread_id": row.thread_id,
        "user_id": None if row.owner is None else str(row.owner.pk),
        "schedule": row.expression,
        "timezone": row.timezone,
        "end_time": None if row.ends_at is None else serialize_datetime(row.ends_at),
        "next_run_date": None if row.next_at is None else serialize_datetime(row.next_at),
        "enabled": row.is_active,
        "metadata": row.metadata,
        "payload": payload,
        "on_run_completed": "keep" if row.thread_id is None else None,
        "created_at": serialize_datetime(row.created_at),
        "updated_at": serialize_datetime(row.updated_at),
    }
