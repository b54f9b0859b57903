"""View of a run's events, as pages, by long polling, or as server-sent events."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.db import transaction
from rest_framework.exceptions import NotAcceptable
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors, services
from hitl_django.errors import RunNotFound
from hitl_django.services import EventPage, EventReader

from ..event_stream import RETRY, render_frame, stream_events, stream_response
from ..invalid_params import InvalidParam
from ..operations import LAST_EVENT_ID, RETRY_AFTER, ResponseSpec, operation
from ..problems import InvalidRequest
from ..renderers import AcceptNegotiation, EventStreamRenderer, PlainJSONRenderer
from ..serializers.events import EventPageSerializer, EventSerializer, EventsQuery
from ..waiting_response import Steps, answer_once
from .base import Resource

_NUMBER = re.compile("[0-9]{1,9}")


class RunEvents(Resource):
    """The events of a run."""

    renderer_classes = (PlainJSONRenderer, EventStreamRenderer)  # type: ignore[assignment]
    content_negotiation_class = AcceptNegotiation  # type: ignore[assignment]

    @operation(
        "list_run_events",
        query=EventsQuery,
        headers=(LAST_EVENT_ID,),
        responses={
            200: ResponseSpec(
                "Events, in order.",
                EventPageSerializer,
                headers=(RETRY_AFTER,),
                other_media_types=("text/event-stream",),
            ),
            204: ResponseSpec(
                "End of stream: the run has ended and you have received its last event."
            ),
        },
        errors=(RunNotFound, errors.EventsPrunedError, NotAcceptable),
    )
    def get(self, request: Request, run_id: UUID) -> Any:
        """List the events of a run that follow a given event, and optionally wait for new events.

        With `wait`, the response is sent as soon as there are events after the number `after`. If
        there are no such events for `wait` seconds, the response is an empty page. To follow a run,
        repeat the request with `after` set to the `last` of the response until `ended` is true.

        With `Accept: text/event-stream`, the response is a stream of server-sent events. In each
        event of the stream, `id` is the number of the run's event, `event` is the kind of the run's
        event, and `data` is the run's event in the format of a page. A stream ends after a few
        minutes. Reconnect with `Last-Event-ID` until the status is 204. If too many requests are
        already waiting, the server immediately sends the available events and ends the stream.

        Events are stored as long as the run, unless the server is configured to delete events
        earlier. If events after the number `after` have been deleted, the status is 410, and the
        `last` of the response is the number from which to continue.
        """
        query = self.read_query()
        after = self._read_last_event_id(request, query.get("after", 0))
        reader = EventReader(run_id, by=request.user)
        if isinstance(request.accepted_renderer, EventStreamRenderer):
            return self._stream(request, reader, after)
        limit, seconds = query.get("limit", services.EVENT_PAGE), query.get("wait", 0)
        page = reader.read(after, limit)
        response = Response(self._render_page(page))
        if not seconds or page.events or page.ended or request.method == "HEAD":
            return response
        return answer_once(
            request._request,
            response,
            seconds,
            lambda: reader.has_news(after),
            bool,
            lambda _: self._render_page(reader.read(after, limit)),
        )

    def _stream(self, request: Request, reader: EventReader, after: int) -> Any:
        page = reader.read(after, 1)
        if page.ended and not page.events:
            return Response(status=204)
        if request.method == "HEAD":
            return Response(content_type=EventStreamRenderer.media_type)

        def steps(most: float) -> Steps:
            yield RETRY
            yield from stream_events(reader, after, most, self._render_frames)

        return stream_response(request._request, steps)

    def _read_last_event_id(self, request: Request, after: int) -> int:
        header = request.headers.get("Last-Event-ID")
        if not header:
            return after
        if _NUMBER.fullmatch(header) is None:
            detail = "Must be an event number."
            raise InvalidRequest(InvalidParam("invalid", detail, header="Last-Event-ID"))
        return int(header)

    def _render_page(self, page: EventPage) -> Any:
        return self.render(EventPageSerializer, page)

    def _render_frames(self, page: EventPage) -> bytes:
        shown = self.render(EventSerializer, page.events, many=True)
        return b"".join(render_frame(event["kind"], event, event["seq"]) for event in shown)


#: The view only reads. A waiting response must not keep a transaction open.
view = transaction.non_atomic_requests(RunEvents.as_view())
