"""Threads: made, found, changed, copied, erased."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import (
    Case,
    CharField,
    Exists,
    F,
    OrderBy,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.operations import operation
from hitl_django.db.alias import write_alias
from hitl_django.errors import HitlError
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.models.fields import canonical_json
from hitl_django.permissions import get_policy

from .assistants import find_graph_name
from .bodies import ThreadBody, ThreadChangeBody, ThreadCountBody, ThreadSearchBody
from .documents import THREAD_STATUS, build_thread, build_thread_metadata, select_keys
from .resource import AgentResource

USUAL_ROWS = 10
VIA = "api"
#: Names of a thread's graph, among its metadata.
GRAPH_NAMES = ("graph_id", "assistant_id")


class AgentThreadList(AgentResource):
    """Where threads are made."""

    input_pointer = "/metadata"

    @operation("create_thread", body=ThreadBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        metadata = dict(body.get("metadata", {}))
        names = [str(metadata.pop(name)) for name in GRAPH_NAMES if metadata.get(name)]
        made = services.create_thread(
            body.get("thread_id"),
            graph=find_graph_name(names[0]) if names else "",
            metadata=metadata,
            if_exists="keep" if body.get("if_exists") == "do_nothing" else "refuse",
            by=request.user,
            via=VIA,
        )
        # It is the caller's own, so they are shown it whether or not they see threads.
        thread = Thread.objects.using(write_alias()).get(thread_id=made.thread_id)
        return Response(show_thread(thread, request.user))


class ThreadSearch(AgentResource):
    """The threads, the newest first if nothing else is said."""

    @operation("search_threads", body=ThreadSearchBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        rows = _filter(querysets.visible_threads(request.user), body)
        if "ids" in body:
            rows = rows.filter(thread_id__in=body["ids"])
        rows = _sort(rows, body, request.user)
        start, limit = body.get("offset", 0), body.get("limit", USUAL_ROWS)
        page, wanted = _cut(rows, body, start, limit + 1), body.get("select", [])
        headers = {"X-Pagination-Next": str(start + limit)} if len(page) > limit else None
        shown = [
            select_keys(show_thread(thread, request.user, wanted), wanted)
            for thread in page[:limit]
        ]
        return Response(shown, headers=headers)


class ThreadCount(AgentResource):
    """How many threads there are."""

    @operation("count_threads", body=ThreadCountBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        rows = _filter(querysets.visible_threads(request.user), body)
        if not body.get("metadata"):
            return Response(rows.count())
        return Response(sum(1 for _ in _having(rows, body)))


class AgentThreadDetail(AgentResource):
    """One thread."""

    input_pointer = "/metadata"

    @operation("get_thread", responses={})
    def get(self, request: Request, thread_id: str) -> Response:
        thread = self.find(querysets.visible_threads, thread_id=thread_id)
        return Response(show_thread(thread, request.user))

    @operation("change_thread", body=ThreadChangeBody, responses={})
    def patch(self, request: Request, thread_id: str) -> Response:
        metadata = {
            name: value
            for name, value in self.read_body().get("metadata", {}).items()
            if name not in GRAPH_NAMES
        }
        services.change_metadata(thread_id, metadata, by=request.user, via=VIA)
        if request.headers.get("Prefer") == "return=minimal":
            return Response(status=204)
        return self.get(request, thread_id)

    @operation("delete_thread", responses={})
    def delete(self, request: Request, thread_id: str) -> Response:
        """Erases what a thread says; that it was said stays."""
        self.find(querysets.visible_threads, thread_id=thread_id)
        services.forget(thread_id, by=request.user, via=VIA)
        return Response(status=204)


class ThreadCopy(AgentResource):
    """Another thread with the same history."""

    @operation("copy_thread", responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str) -> Response:
        made = services.copy_thread(thread_id, by=request.user, via=VIA)
        thread = Thread.objects.using(write_alias()).get(thread_id=made.thread_id)
        return Response(show_thread(thread, request.user))


def show_thread(thread: Thread, user: Any, wanted: list[str] | None = None) -> dict[str, Any]:
    """Returns a thread as the user may see it, with what takes reading where that is wanted."""
    run = Run.select_newest(querysets.visible_runs(user).filter(thread=thread)).first()
    questions: Any = ()
    if thread.asked and (not wanted or "interrupts" in wanted):
        questions = (
            querysets.visible_interrupts(user)
            .filter(thread=thread, status=Interrupt.Status.PENDING, kind=Interrupt.Kind.INTERRUPT)
            .order_by("created_at", "pk")
        )
    values = None
    if run is not None and (not wanted or "values" in wanted):
        values = _read_values(thread, user)
    return build_thread(thread, run, questions, values)


def _read_values(thread: Thread, user: Any) -> Any:
    if not get_policy().may_view_state(user, thread):
        return None
    try:
        state = services.thread_state(thread.thread_id, by=user)
    except HitlError:  # of a graph that isn't there any more, say
        return None
    return None if state is None else state.values


def _filter(rows: QuerySet[Thread], body: Mapping[str, Any]) -> QuerySet[Thread]:
    """Narrows threads to what the database can look for."""
    metadata = body.get("metadata", {})
    for name in GRAPH_NAMES:
        if name in metadata:
            known = {found for found in [metadata[name]] if isinstance(found, str)}
            rows = rows.filter(graph__in=[_graph_of(found) for found in known])
    for name, value in metadata.items():
        if name not in GRAPH_NAMES:
            rows = rows.filter(metadata__contains=_part_of_text(name, value))
    if "status" in body:
        rows = _filter_by_status(rows, body["status"])
    return rows


def _graph_of(name: str) -> str:
    try:
        return find_graph_name(name)
    except HitlError:
        return name


def _part_of_text(name: str, value: Any) -> str:
    """Returns what stands in the text of any metadata that has the value; more may have it."""
    if isinstance(value, str):
        return canonical_json({name: value}).decode()[1:-1]
    return canonical_json(name).decode() + ":"


def _filter_by_status(rows: QuerySet[Thread], status: str) -> QuerySet[Thread]:
    states = [state for state, named in THREAD_STATUS.items() if named == status]
    runs = Run.objects.using(write_alias()).filter(thread=OuterRef("pk"))
    if status in ("busy", "interrupted"):  # a run that has such a state is a thread's newest
        return rows.filter(Exists(runs.filter(state__in=states)))
    newest = Subquery(Run.select_newest(runs).values("state")[:1])
    rows = rows.alias(newest=newest)
    found = rows.filter(newest__in=[state for state in states if state is not None])
    return found | rows.filter(newest=None) if None in states else found


def _sort(rows: QuerySet[Thread], body: Mapping[str, Any], user: Any) -> QuerySet[Thread]:
    """Sorts threads by what the user is shown of them."""
    runs = Run.select_newest(querysets.visible_runs(user).filter(thread=OuterRef("pk")))
    states = Checkpoint.objects.filter(thread=OuterRef("pk"), ns="").order_by("-checkpoint_id")
    words = [When(state=state, then=Value(word)) for state, word in THREAD_STATUS.items() if state]
    status = Case(*words, output_field=CharField())
    keys: dict[str, Any] = {
        "thread_id": F("thread_id"),
        "status": _newest(runs, status, Value(THREAD_STATUS[None])),
        "updated_at": _newest(runs, Coalesce("finished_at", "queued_at"), F("created_at")),
        "state_updated_at": _newest(states, F("created_at"), F("created_at")),
    }
    # Threads are numbered as they are made, which decides between those that are alike, too.
    order = [keys[name]] if (name := body.get("sort_by")) in keys else []
    is_ascending = body.get("sort_order") == "asc"
    by = [OrderBy(key, descending=not is_ascending) for key in (*order, F("pk"))]
    return rows.order_by(*by)


def _newest(rows: QuerySet[Any], value: Any, otherwise: Any) -> Coalesce:
    """Returns what the first of the rows has, in SQL."""
    return Coalesce(Subquery(rows.annotate(wanted=value).values("wanted")[:1]), otherwise)


def _cut(rows: QuerySet[Thread], body: Mapping[str, Any], start: int, most: int) -> list[Thread]:
    if not body.get("metadata"):
        return list(rows[start : start + most])
    found: list[Thread] = []
    for number, thread in enumerate(_having(rows, body)):
        if number >= start:
            found.append(thread)
        if len(found) == most:
            break
    return found


def _having(rows: QuerySet[Thread], body: Mapping[str, Any]) -> Iterator[Thread]:
    """Yields the threads whose metadata has what is looked for."""
    wanted = {name: value for name, value in body["metadata"].items() if name not in GRAPH_NAMES}
    for thread in rows.iterator(chunk_size=200):
        if _contains(build_thread_metadata(thread), wanted):
            yield thread


def _contains(value: Any, wanted: Any) -> bool:
    """Says whether a JSON value has all that another has, at whatever depth."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            name in value and _contains(value[name], inner) for name, inner in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(value, list) and all(
            any(_contains(each, inner) for each in value) for inner in wanted
        )
    return type(value) is type(wanted) and bool(value == wanted)
