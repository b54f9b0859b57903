"""Views that create, find, change, copy and erase threads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import (
    Case,
    CharField,
    Exists,
    F,
    JSONField,
    OrderBy,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Length
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.operations import operation
from hitl_django.db.alias import write_alias
from hitl_django.db.json_contains import JSONContains
from hitl_django.db.retry import retry_on_conflict
from hitl_django.leases import lock_thread
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.permissions import get_policy
from hitl_django.services.runs.state import read_values

from .bodies import ThreadBody, ThreadChangeBody, ThreadCountBody, ThreadSearchBody
from .documents import ASSISTANT_KEY, THREAD_STATUS, build_thread, select_keys
from .models import Assistant
from .resource import AgentResource
from .stored_assistants import find_assistant, find_built_in, is_built_in

DEFAULT_ROWS = 10
#: Maximum number of threads with values in a response, and maximum number of bytes of values and
#: payloads. Beyond these limits, values and payloads are null.
MAX_STATES, MAX_BYTES = 100, 2 * 1024 * 1024
#: Maximum number of pending interrupts in a response.
MAX_ASKED = 1000
VIA = "api"
#: Metadata keys that contain the assistant or the graph of a thread.
GRAPH_NAMES = ("assistant_id", "graph_id")


class AgentThreadList(AgentResource):
    """View that creates threads."""

    input_pointer = "/metadata"

    @operation("create_thread", body=ThreadBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        metadata, graph = body.get("metadata", {}), ""
        names = [str(metadata[name]) for name in GRAPH_NAMES if metadata.get(name)]
        metadata = _drop_own_keys(metadata)
        if names:
            assistant = find_assistant(request.user, names[0])
            graph, metadata = assistant.graph, metadata | build_assistant_metadata(assistant)
        made = services.create_thread(
            body.get("thread_id"),
            graph=graph,
            metadata=metadata,
            if_exists="keep" if body.get("if_exists") == "do_nothing" else "refuse",
            by=request.user,
            via=VIA,
        )
        # The user created the thread, so it is returned even without the permission to view
        # threads.
        thread = Thread.objects.using(write_alias()).get(thread_id=made.thread_id)
        return Response(show_thread(thread, request.user))


class ThreadSearch(AgentResource):
    """View that searches for threads. By default, the newest threads come first."""

    @operation("search_threads", body=ThreadSearchBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        rows = querysets.visible_threads(request.user)
        if rows.query.is_empty():
            return Response([])
        rows = _filter(rows, body, request.user)
        if "ids" in body:
            rows = rows.filter(thread_id__in=body["ids"])
        rows = _sort(rows, body, request.user)
        start, limit = body.get("offset", 0), body.get("limit", DEFAULT_ROWS)
        page, select = list(rows[start : start + limit + 1]), body.get("select", [])
        headers = {"X-Pagination-Next": str(start + limit)} if len(page) > limit else None
        wanted = frozenset(path.partition(".")[0] for path in select)
        shown = show_threads(page[:limit], request.user, wanted)
        return Response([select_keys(each, select) for each in shown], headers=headers)


class ThreadCount(AgentResource):
    """View of the number of threads that match a filter."""

    @operation("count_threads", body=ThreadCountBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        rows = querysets.visible_threads(request.user)
        if rows.query.is_empty():
            return Response(0)
        return Response(_filter(rows, body, request.user).count())


class AgentThreadDetail(AgentResource):
    """View of one thread."""

    input_pointer = "/metadata"

    @operation("get_thread", responses={})
    def get(self, request: Request, thread_id: str) -> Response:
        thread = self.find(querysets.visible_threads, thread_id=thread_id)
        return Response(show_thread(thread, request.user))

    @operation("change_thread", body=ThreadChangeBody, responses={})
    def patch(self, request: Request, thread_id: str) -> Response:
        metadata = _drop_own_keys(self.read_body().get("metadata", {}))
        services.change_metadata(thread_id, metadata, by=request.user, via=VIA)
        if request.headers.get("Prefer") == "return=minimal":
            return Response(status=204)
        return self.get(request, thread_id)

    @operation("delete_thread", responses={})
    def delete(self, request: Request, thread_id: str) -> Response:
        """Erase the contents of a thread.

        The audit log is not erased.
        """
        self.find(querysets.visible_threads, thread_id=thread_id)
        services.erase_thread(thread_id, by=request.user, via=VIA)
        return Response(status=204)


class ThreadCopy(AgentResource):
    """View that copies a thread with its history."""

    @operation("copy_thread", responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str) -> Response:
        made = services.copy_thread(thread_id, by=request.user, via=VIA)
        thread = Thread.objects.using(write_alias()).get(thread_id=made.thread_id)
        return Response(show_thread(thread, request.user))


def _drop_own_keys(metadata: Mapping[str, Any]) -> dict[str, Any]:
    own = {*GRAPH_NAMES, ASSISTANT_KEY}
    return {name: value for name, value in metadata.items() if name not in own}


def build_assistant_metadata(assistant: Assistant) -> dict[str, Any]:
    """Return the metadata with which a thread stores its assistant.

    For a built-in assistant, the result is empty.
    """
    return {} if is_built_in(assistant) else {ASSISTANT_KEY: str(assistant.pk)}


@retry_on_conflict
def note_assistant(thread: Thread, assistant: Assistant) -> None:
    """Store the assistant of a new run in the metadata of its thread."""
    named = build_assistant_metadata(assistant)
    if thread.metadata.get(ASSISTANT_KEY) == named.get(ASSISTANT_KEY):
        return
    with transaction.atomic(using=write_alias()):
        metadata = dict(lock_thread(pk=thread.pk).metadata)
        metadata.pop(ASSISTANT_KEY, None)
        rows = Thread.objects.using(write_alias()).filter(pk=thread.pk)
        rows.update(metadata=metadata | named)


def show_thread(thread: Thread, user: Any) -> dict[str, Any]:
    """Return a thread in the clients' format, without parts that the user may not view."""
    (shown,) = show_threads([thread], user)
    return shown


def show_threads(
    threads: Sequence[Thread], user: Any, wanted: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """Return threads in the clients' format, without parts that the user may not view.

    Only the members in ``wanted`` are correct, because no data is read for other members. An empty
    ``wanted`` selects all members.
    """

    def is_wanted(*names: str) -> bool:
        return not wanted or not wanted.isdisjoint(names)

    budget = ByteBudget()
    runs = _find_newest_runs(threads, user) if is_wanted("status", "updated_at", "values") else {}
    interrupts = _find_interrupts(threads, user, budget) if is_wanted("interrupts") else {}
    started = [thread for thread in threads if thread.pk in runs] if is_wanted("values") else []
    values = _read_values(started, user, budget)
    changed = _find_state_times(threads) if is_wanted("state_updated_at") else {}
    return [
        build_thread(
            thread,
            runs.get(thread.pk),
            interrupts.get(thread.pk, ()),
            values.get(thread.pk),
            changed.get(thread.pk),
        )
        for thread in threads
    ]


class ByteBudget:
    """The number of bytes that values and payloads may still occupy in a response."""

    def __init__(self) -> None:
        self.left = MAX_BYTES

    def spend(self, size: int) -> bool:
        """Subtract ``size`` from the budget. Return whether any bytes were left before."""
        had, self.left = self.left > 0, self.left - size
        return had


def _find_newest_runs(threads: Sequence[Thread], user: Any) -> dict[int, Run]:
    """Return the newest visible run of each thread, by the thread's primary key.

    A run is visible if the user may view it.
    """
    newest = Subquery(_select_newest_run(user).values("pk")[:1])
    keys = [thread.pk for thread in threads]
    heads = Thread.objects.using(write_alias()).filter(pk__in=keys).values_list(newest)
    runs = querysets.visible_runs(user).select_related(None)
    found = runs.filter(pk__in=heads).only("thread", "state", "queued_at", "finished_at")
    return {run.thread_id: run for run in found}


def _find_state_times(threads: Sequence[Thread]) -> dict[int, datetime]:
    """Return the time of the newest state of each thread, by the thread's primary key."""
    rows = Thread.objects.using(write_alias()).filter(pk__in=[thread.pk for thread in threads])
    return dict(rows.values_list("pk", _newest(_select_states(), F("created_at"), F("created_at"))))


def _find_interrupts(
    threads: Sequence[Thread], user: Any, budget: ByteBudget
) -> dict[int, list[Interrupt]]:
    """Return the pending interrupts that the user may view, by the thread's primary key.

    The oldest ``MAX_ASKED`` interrupts are returned. When the ``budget`` is spent, the remaining
    payloads are None.
    """
    rows = querysets.visible_interrupts(user).filter(
        thread__in=[thread.pk for thread in threads if thread.has_interrupts],
        status=Interrupt.Status.PENDING,
        kind=Interrupt.Kind.INTERRUPT,
    )
    rows = rows.select_related(None).only("thread", "task_id", "interrupt_id")
    pending = list(rows.annotate(size=Length("payload")).order_by("created_at", "pk")[:MAX_ASKED])
    shown = [row.pk for row in pending if budget.spend(row.size)]
    payloads = dict(
        Interrupt.objects.using(write_alias()).filter(pk__in=shown).values_list("pk", "payload")
    )
    found: dict[int, list[Interrupt]] = {}
    for row in pending:
        row.payload = payloads.get(row.pk)
        found.setdefault(row.thread_id, []).append(row)
    return found


def _read_values(threads: Sequence[Thread], user: Any, budget: ByteBudget) -> dict[int, Any]:
    """Return the values of threads by the thread's primary key.

    Threads whose state the user may not view are left out. Reading stops when the ``budget`` is
    spent.
    """
    found: dict[int, Any] = {}
    may_view = get_policy().may_view_state
    shown = [thread for thread in threads if thread.graph and may_view(user, thread)]
    # Start with a small batch, because values may be large.
    start, count = 0, 5
    while budget.left > 0 and start < min(len(shown), MAX_STATES):
        for thread, values in read_values(shown[start : min(start + count, MAX_STATES)]):
            found[thread.pk] = values
            budget.spend(len(json.dumps(values)))
        start, count = start + count, 2 * count
    return found


def _filter(rows: QuerySet[Thread], body: Mapping[str, Any], user: Any) -> QuerySet[Thread]:
    metadata = dict(body.get("metadata", {}))
    if "graph_id" in metadata:
        name = metadata.pop("graph_id")
        rows = rows.filter(graph__in=[name] if isinstance(name, str) else [])
    if "assistant_id" in metadata:
        rows = _filter_by_assistant(rows, metadata.pop("assistant_id"))
    if metadata:
        rows = rows.filter(JSONContains("metadata", metadata))
    if "status" in body:
        rows = _filter_by_status(rows, body["status"], user)
    return rows


def _filter_by_assistant(rows: QuerySet[Thread], assistant_id: Any) -> QuerySet[Thread]:
    graph = find_built_in(assistant_id)
    if graph is None:
        return rows.filter(JSONContains("metadata", {ASSISTANT_KEY: assistant_id}))
    rows = rows.alias(stored=Cast("metadata", JSONField())).filter(graph=graph)
    return rows.exclude(stored__has_key=ASSISTANT_KEY)


def _filter_by_status(rows: QuerySet[Thread], status: str, user: Any) -> QuerySet[Thread]:
    """Return the threads with this status.

    The status depends on the runs that are visible to the user.
    """
    if status in ("busy", "interrupted"):  # Only the newest run of a thread has these states.
        states = [state for state, named in THREAD_STATUS.items() if named == status]
        runs = querysets.visible_runs(user).select_related(None)
        return rows.filter(Exists(runs.filter(thread=OuterRef("pk"), state__in=states)))
    return rows.alias(status=_build_status(_select_newest_run(user))).filter(status=status)


def _select_newest_run(user: Any) -> QuerySet[Run]:
    runs = querysets.visible_runs(user).select_related(None)
    return Run.select_newest(runs.filter(thread=OuterRef("pk")))


def _build_status(newest: QuerySet[Run]) -> Coalesce:
    words = [When(state=state, then=Value(word)) for state, word in THREAD_STATUS.items() if state]
    return _newest(newest, Case(*words, output_field=CharField()), Value(THREAD_STATUS[None]))


def _sort(rows: QuerySet[Thread], body: Mapping[str, Any], user: Any) -> QuerySet[Thread]:
    """Sort threads by values that the user may view."""
    runs = _select_newest_run(user)
    keys: dict[str, Any] = {
        "thread_id": F("thread_id"),
        "status": _build_status(runs),
        "updated_at": _newest(runs, Coalesce("finished_at", "queued_at"), F("created_at")),
        "state_updated_at": _newest(_select_states(), F("created_at"), F("created_at")),
    }
    # Threads with equal values are sorted by id. Ids increase with the creation time.
    order = [keys[name]] if (name := body.get("sort_by")) in keys else []
    is_ascending = body.get("sort_order") == "asc"
    by = [OrderBy(key, descending=not is_ascending) for key in (*order, F("pk"))]
    return rows.order_by(*by)


def _select_states() -> QuerySet[Checkpoint]:
    states = Checkpoint.objects.filter(thread=OuterRef("pk"), ns="")
    return states.order_by("-checkpoint_id")


def _newest(rows: QuerySet[Any], value: Any, otherwise: Any) -> Coalesce:
    """Return the SQL expression for ``value`` in the first of ``rows``.

    If there are no rows, or the value is NULL, the expression has the value ``otherwise``.
    """
    return Coalesce(Subquery(rows.annotate(wanted=value).values("wanted")[:1]), otherwise)
