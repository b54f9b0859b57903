"""Views that start, stream, wait for, list and cancel runs."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.event_stream import stream_response
from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.operations import LAST_EVENT_ID, operation
from hitl_django.api.problems import InvalidRequest
from hitl_django.api.renderers import EventStreamRenderer, PlainJSONRenderer
from hitl_django.api.waiting_response import answer_once
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import HitlError, NotAllowedError, RunNotFound
from hitl_django.models import Run
from hitl_django.permissions import get_policy
from hitl_django.services import EventReader

from .bodies import STREAM_MODES, CancelQuery, JoinQuery, RunBody, RunsQuery
from .documents import RUN_STATUS, build_run, select_keys
from .not_supported import NotSupported
from .resource import AgentResource, build_path
from .run_requests import DEFAULT_MODE, StartedRun, start_or_resume_run
from .run_streams import RunStream, read_outcome
from .threads import VIA

logger = logging.getLogger(__name__)

DEFAULT_ROWS = 10
_NUMBER = re.compile("-1|[0-9]{1,9}")


class RunStart(AgentResource):
    """Base class of views that start or resume a run.

    The thread is the one in the URL, or a new thread.
    """

    def begin(self, thread_id: str | None) -> tuple[dict[str, Any], StartedRun]:
        """Start or resume the run that the request describes.

        Return the request's body and the run.
        """
        body = self.read_body()
        if "resume" in (body.get("command") or {}):
            self.input_pointer = "/command/resume"
        else:
            self.input_pointer = "/command" if body.get("command") else "/input"
        return body, start_or_resume_run(self.request.user, thread_id, body)

    def build_headers(self, begun: StartedRun, name: str) -> dict[str, str]:
        """Return headers: ``Content-Location`` for the run, ``Location`` for reconnecting.

        ``name`` is the name of the URL pattern for reconnecting.
        """
        place = (begun.thread_id, begun.run_id)
        return {
            "Content-Location": build_path(self.request, "run", *place),
            "Location": build_path(self.request, name, *place),
        }

    @retry_on_conflict
    def begin_and_follow(
        self, thread_id: str | None
    ) -> tuple[dict[str, Any], StartedRun, EventReader]:
        """Start or resume the run, and return the body, the run and a reader of the run's events.

        Raises:
            NotAllowedError: if the user may not view the run or its events.
        """
        refusal: NotAllowedError
        with transaction.atomic(using=write_alias()):
            try:
                body, begun = self.begin(thread_id)
                return body, begun, EventReader(begun.run_id, by=self.request.user, to_rest=True)
            except RunNotFound:
                transaction.set_rollback(True, using=write_alias())
                refusal = NotAllowedError(
                    "You don't have permission to view runs; no run was started."
                )
            except NotAllowedError as error:
                # The audit log contains the run, so the run must not be rolled back.
                refusal = error
        raise refusal


class AgentRunList(RunStart):
    """View of the runs of a thread."""

    lists = frozenset({"select"})

    @operation("list_runs", query=RunsQuery, responses={})
    def get(self, request: Request, thread_id: str) -> Response:
        query = self.read_query()
        thread = self.find(querysets.visible_threads, thread_id=thread_id)
        rows = querysets.visible_runs(request.user).filter(thread=thread)
        if status := query.get("status"):
            states = [state for state, named in RUN_STATUS.items() if named == status]
            rows = rows.filter(state__in=states)
        start, limit = query.get("offset", 0), query.get("limit", DEFAULT_ROWS)
        page, select = rows.order_by("-number", "-pk")[start : start + limit], "select"
        return Response([select_keys(build_run(run), self.read_list(select)) for run in page])

    @operation("create_run", body=RunBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str | None = None) -> Response:
        _, begun = self.begin(thread_id)
        # The user created the run, so it is returned even without the permission to view runs.
        run = Run.objects.select_related("thread").get(pk=begun.run_id)
        return Response(build_run(run), headers=self.build_headers(begun, "run-join"))


class RunStreaming(RunStart):
    """View that starts a run and streams its events."""

    renderer_classes = (PlainJSONRenderer, EventStreamRenderer)  # type: ignore[assignment]

    @operation("stream_run", body=RunBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str | None = None) -> Any:
        body, begun, reader = self.begin_and_follow(thread_id)
        modes = body.get("stream_mode", [DEFAULT_MODE])
        subgraphs = body.get("stream_subgraphs", False)
        stream = RunStream(
            reader,
            request.user,
            begun.after,
            modes,
            subgraphs=subgraphs,
            stays=isinstance(request._request, ASGIRequest),
        )
        cancels = body.get("on_disconnect") == "cancel"
        headers = self.build_headers(begun, "run-stream")
        headers["Location"] += build_stream_query(modes, subgraphs, cancels)
        return send_stream(request, stream, headers, cancels)


class RunWait(RunStart):
    """View that starts a run and waits for its result."""

    @operation("wait_for_run", body=RunBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str | None = None) -> Any:
        body, begun, reader = self.begin_and_follow(thread_id)
        cancels = body.get("on_disconnect") == "cancel"
        headers = self.build_headers(begun, "run-join")
        # A reviewer who resumes a run has succeeded even without permission to view the state.
        resumes = bool(body.get("command"))
        return send_outcome(request, reader, headers, cancels, may_hide=resumes)


class AgentRunDetail(AgentResource):
    """View of one run."""

    @operation("get_run", responses={})
    def get(self, request: Request, thread_id: str, run_id: UUID) -> Response:
        return Response(build_run(find_run(self, thread_id, run_id)))

    @operation("delete_run", responses={})
    def delete(self, request: Request, thread_id: str, run_id: UUID) -> Response:
        raise NotSupported(
            "Runs are deleted with their thread. Delete the thread, or cancel the run."
        )


class AgentRunCancel(AgentResource):
    """View that cancels a run and withdraws its interrupts."""

    @operation("cancel_run", query=CancelQuery, responses={})
    def post(self, request: Request, thread_id: str, run_id: UUID) -> Response:
        self.read_query()
        find_run(self, thread_id, run_id)
        # There is no need to wait, because a worker that still executes the run can't store
        # anything any more.
        services.cancel(run_id, by=request.user, via=VIA)
        return Response(status=202)


class RunJoin(AgentResource):
    """View that waits for the result of a run."""

    @operation("join_run", query=JoinQuery, responses={})
    def get(self, request: Request, run_id: UUID, thread_id: str | None = None) -> Any:
        cancels = cancels_on_disconnect(self.read_query())
        find_run(self, thread_id, run_id)
        reader = EventReader(run_id, by=request.user, to_rest=True)
        return send_outcome(request, reader, {}, cancels)


class RunJoinStream(AgentResource):
    """View that streams a run's events since its last start or resume, or after a given event."""

    renderer_classes = (PlainJSONRenderer, EventStreamRenderer)  # type: ignore[assignment]
    lists = frozenset({"stream_mode"})

    @operation("join_run_stream", query=JoinQuery, headers=(LAST_EVENT_ID,), responses={})
    def get(self, request: Request, run_id: UUID, thread_id: str | None = None) -> Any:
        query = self.read_query()
        run = find_run(self, thread_id, run_id)
        modes = self.read_list("stream_mode")
        subgraphs = query.get("stream_subgraphs") != "false"
        if not set(modes) <= set(STREAM_MODES):
            detail = f"Must be one or more of: {', '.join(STREAM_MODES)}."
            raise InvalidRequest(InvalidParam("invalid", detail, parameter="stream_mode"))
        reader = EventReader(run_id, by=request.user, to_rest=True)
        after = _read_last_event_id(request)
        if after is None:
            after = reader.find_last_resume()
        stream = RunStream(
            reader,
            request.user,
            after,
            modes or None,
            subgraphs=subgraphs,
            stays=isinstance(request._request, ASGIRequest),
        )
        place = build_path(request, "run-stream", run.thread.thread_id, run_id)
        cancels = cancels_on_disconnect(query)
        place += build_stream_query(modes, subgraphs, cancels)
        return send_stream(request, stream, {"Location": place}, cancels)


def cancels_on_disconnect(query: dict[str, Any]) -> bool:
    return query.get("cancel_on_disconnect") in ("1", "true")


def build_stream_query(modes: list[str], subgraphs: bool, cancels: bool) -> str:
    """Return the query string of the URL for reconnecting, with the options of the first stream.

    A reconnecting client sends no parameters of its own.
    """
    query = {"stream_mode": modes, "stream_subgraphs": "true" if subgraphs else "false"}
    if cancels:
        query["cancel_on_disconnect"] = "true"
    return f"?{urlencode(query, doseq=True)}"


def find_run(view: AgentResource, thread_id: str | None, run_id: UUID) -> Run:
    """Return a run.

    Raises:
        Http404: if the run doesn't exist, doesn't belong to the thread ``thread_id`` (if given), or
            isn't visible to the user.
    """
    of_thread = {} if thread_id is None else {"thread__thread_id": thread_id}
    return view.find(querysets.visible_runs, pk=run_id, **of_thread)


def send_stream(request: Request, stream: RunStream, headers: dict[str, str], cancels: bool) -> Any:
    on_disconnect = partial(cancel_active_run, stream.reader, request.user) if cancels else None
    made = stream_response(request._request, stream.steps, on_disconnect)
    for name, value in headers.items():
        made[name] = value
    return made


def cancel_active_run(reader: EventReader, user: Any) -> None:
    """Cancel the run that ``reader`` reads, because the client has disconnected.

    Nothing happens if the run is paused or has ended, or if the user may not cancel the run.
    """
    run = Run.objects.using(reader.using).select_related("thread").filter(pk=reader.run_id).first()
    if run is None or reader.is_over() or not get_policy().may_operate(user, run):
        return
    try:
        services.cancel(run.pk, by=user, via=VIA, reason="The client has disconnected.")
    except HitlError:
        logger.info("run %s was not cancelled after its client disconnected", run.pk)


def send_outcome(
    request: Request,
    reader: EventReader,
    headers: dict[str, str],
    cancels: bool,
    *,
    may_hide: bool = False,
) -> Any:
    """Return a response with the result of the run that ``reader`` reads.

    The response is sent when the run pauses or ends. With ``cancels``, the run is cancelled if the
    client disconnects before that time. ``headers`` are headers of the response. With ``may_hide``,
    values that the user may not view are None instead of an error.
    """

    def show(_: bool) -> Any:
        return read_outcome(reader.run_id, request.user, may_hide=may_hide)

    # Check this before reading the result, because the run may end in between.
    is_over = reader.is_over()
    response = Response(show(True), headers=headers)
    if is_over:
        return response
    on_disconnect = partial(cancel_active_run, reader, request.user) if cancels else None
    return answer_once(request._request, response, None, reader.is_over, bool, show, on_disconnect)


def _read_last_event_id(request: Request) -> int | None:
    """Return the number of the last event that the client received, or None.

    The id -1, which clients send to receive all events, is treated as 0.
    """
    header = request.headers.get("Last-Event-ID")
    if not header:
        return None
    if _NUMBER.fullmatch(header) is None:
        detail = "Must be an event number."
        raise InvalidRequest(InvalidParam("invalid", detail, header="Last-Event-ID"))
    return max(0, int(header))


#: These views wait, so they must not keep a transaction open.
stream_view = transaction.non_atomic_requests(RunStreaming.as_view())
wait_view = transaction.non_atomic_requests(RunWait.as_view())
join_view = transaction.non_atomic_requests(RunJoin.as_view())
join_stream_view = transaction.non_atomic_requests(RunJoinStream.as_view())
