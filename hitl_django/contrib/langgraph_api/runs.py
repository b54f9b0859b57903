"""Runs: started, followed, waited for, listed, cancelled."""

from __future__ import annotations

import re
from typing import Any
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
from hitl_django.errors import NotAllowedError, RunNotFound
from hitl_django.models import Run
from hitl_django.services import EventReader

from .bodies import STREAM_MODES, CancelQuery, JoinQuery, RunBody, RunsQuery
from .documents import RUN_STATUS, build_run, select_keys
from .not_supported import NotSupported
from .resource import AgentResource, build_path
from .run_requests import USUAL_MODE, StartedRun, start_or_resume_run
from .run_streams import RunStream, read_outcome
from .threads import VIA

USUAL_ROWS = 10
_NUMBER = re.compile("-1|[0-9]{1,9}")


class RunStart(AgentResource):
    """A view that sets a run going, on the thread of its address or on one of its own."""

    def begin(self, thread_id: str | None) -> tuple[dict[str, Any], StartedRun]:
        """Does what the request asks for; returns its body, and the run that goes."""
        body = self.read_body()
        if "resume" in (body.get("command") or {}):
            self.input_pointer = "/command/resume"
        else:
            self.input_pointer = "/command" if body.get("command") else "/input"
        return body, start_or_resume_run(self.request.user, thread_id, body)

    def build_headers(self, begun: StartedRun, name: str) -> dict[str, str]:
        """Return where the run is, and where one comes back to that was cut off."""
        place = (begun.thread_id, begun.run_id)
        return {
            "Content-Location": build_path(self.request, "run", *place),
            "Location": build_path(self.request, name, *place),
        }

    @retry_on_conflict
    def begin_and_follow(
        self, thread_id: str | None
    ) -> tuple[dict[str, Any], StartedRun, EventReader]:
        """Does what the request asks for, unless its caller may not follow the run."""
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
                refusal = error  # which is in the record, and has to stay there
        raise refusal


class AgentRunList(RunStart):
    """The runs of a thread."""

    lists = frozenset({"select"})

    @operation("list_runs", query=RunsQuery, responses={})
    def get(self, request: Request, thread_id: str) -> Response:
        query = self.read_query()
        thread = self.find(querysets.visible_threads, thread_id=thread_id)
        rows = querysets.visible_runs(request.user).filter(thread=thread)
        if status := query.get("status"):
            states = [state for state, named in RUN_STATUS.items() if named == status]
            rows = rows.filter(state__in=states)
        start, limit = query.get("offset", 0), query.get("limit", USUAL_ROWS)
        page, select = rows.order_by("-number", "-pk")[start : start + limit], "select"
        return Response([select_keys(build_run(run), self.read_list(select)) for run in page])

    @operation("create_run", body=RunBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str | None = None) -> Response:
        _, begun = self.begin(thread_id)
        # It is the caller's own, so they are shown it whether or not they see runs.
        run = Run.objects.select_related("thread").get(pk=begun.run_id)
        return Response(build_run(run), headers=self.build_headers(begun, "run-join"))


class RunStreaming(RunStart):
    """A run that is followed from its beginning."""

    renderer_classes = (PlainJSONRenderer, EventStreamRenderer)  # type: ignore[assignment]

    @operation("stream_run", body=RunBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str | None = None) -> Any:
        body, begun, reader = self.begin_and_follow(thread_id)
        stream = RunStream(
            reader,
            request.user,
            begun.after,
            body.get("stream_mode", [USUAL_MODE]),
            subgraphs=body.get("stream_subgraphs", False),
            stays=isinstance(request._request, ASGIRequest),
        )
        return send_stream(request, stream, self.build_headers(begun, "run-stream"))


class RunWait(RunStart):
    """A run that is waited for."""

    @operation("wait_for_run", body=RunBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str | None = None) -> Any:
        _, begun, reader = self.begin_and_follow(thread_id)
        return send_outcome(request, reader, self.build_headers(begun, "run-join"))


class AgentRunDetail(AgentResource):
    """One run."""

    @operation("get_run", responses={})
    def get(self, request: Request, thread_id: str, run_id: UUID) -> Response:
        return Response(build_run(find_run(self, thread_id, run_id)))

    @operation("delete_run", responses={})
    def delete(self, request: Request, thread_id: str, run_id: UUID) -> Response:
        raise NotSupported(
            "Runs are deleted with their thread. Delete the thread, or cancel the run."
        )


class AgentRunCancel(AgentResource):
    """Ends a run, and closes what it asks."""

    @operation("cancel_run", query=CancelQuery, responses={})
    def post(self, request: Request, thread_id: str, run_id: UUID) -> Response:
        self.read_query()
        find_run(self, thread_id, run_id)
        # Nothing is waited for: a worker that is still at it can't write any more.
        services.cancel(run_id, by=request.user, via=VIA)
        return Response(status=202)


class RunJoin(AgentResource):
    """A run that is waited for."""

    @operation("join_run", query=JoinQuery, responses={})
    def get(self, request: Request, run_id: UUID, thread_id: str | None = None) -> Any:
        self.read_query()
        find_run(self, thread_id, run_id)
        return send_outcome(request, EventReader(run_id, by=request.user, to_rest=True), {})


class RunJoinStream(AgentResource):
    """A run that is followed, from where it last went on or from any event."""

    renderer_classes = (PlainJSONRenderer, EventStreamRenderer)  # type: ignore[assignment]
    lists = frozenset({"stream_mode"})

    @operation("join_run_stream", query=JoinQuery, headers=(LAST_EVENT_ID,), responses={})
    def get(self, request: Request, run_id: UUID, thread_id: str | None = None) -> Any:
        self.read_query()
        run = find_run(self, thread_id, run_id)
        modes = self.read_list("stream_mode")
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
            subgraphs=True,
            stays=isinstance(request._request, ASGIRequest),
        )
        place = build_path(request, "run-stream", run.thread.thread_id, run_id)
        return send_stream(request, stream, {"Location": place})


def find_run(view: AgentResource, thread_id: str | None, run_id: UUID) -> Run:
    """Return a run that the user may see, of a thread if one is named."""
    of_thread = {} if thread_id is None else {"thread__thread_id": thread_id}
    return view.find(querysets.visible_runs, pk=run_id, **of_thread)


def send_stream(request: Request, stream: RunStream, headers: dict[str, str]) -> Any:
    """Return the response that sends a stream."""
    made = stream_response(request._request, stream.steps)
    for name, value in headers.items():
        made[name] = value
    return made


def send_outcome(request: Request, reader: EventReader, headers: dict[str, str]) -> Any:
    """Return the response that waits for a run, and send what it has come to."""

    def show(_: bool) -> Any:
        return read_outcome(reader.run_id, request.user)

    # Asked before it is read: a run may end between the two.
    is_over = reader.is_over()
    response = Response(show(True), headers=headers)
    if is_over:
        return response
    return answer_once(request._request, response, None, reader.is_over, bool, show)


def _read_last_event_id(request: Request) -> int | None:
    """Return the number of the last event that the client has; -1 is none at all."""
    header = request.headers.get("Last-Event-ID")
    if not header:
        return None
    if _NUMBER.fullmatch(header) is None:
        detail = "Must be an event number."
        raise InvalidRequest(InvalidParam("invalid", detail, header="Last-Event-ID"))
    return max(0, int(header))


#: They wait, and should hold no transaction meanwhile.
stream_view = transaction.non_atomic_requests(RunStreaming.as_view())
wait_view = transaction.non_atomic_requests(RunWait.as_view())
join_view = transaction.non_atomic_requests(RunJoin.as_view())
join_stream_view = transaction.non_atomic_requests(RunJoinStream.as_view())
