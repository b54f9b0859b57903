"""View of the queue as it changes, as server-sent events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from .. import querysets
from ..event_stream import stream_response
from ..expansions import Expansion
from ..invalid_params import InvalidParam
from ..operations import LAST_QUEUE_EVENT_ID, ResponseSpec, operation
from ..paging import PAGE_SIZE
from ..problems import InvalidRequest
from ..queue_stream import Page, QueueStream
from ..renderers import EventStreamRenderer
from .interrupts import InterruptList

#: One event, as readers of OpenAPI take the schema of a stream.
_EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "event": {"type": "string", "enum": ["reset", "changes"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "examples": [
        {
            "id": "5d41402abc4b2a76b9719d911017c592",
            "event": "changes",
            "data": '{"added":[],"changed":[],"removed":'
            '[{"id":"0f8fad5b-d9cb-469f-a165-70867728950e","status":"decided"}]}',
        }
    ],
}


class InterruptStream(InterruptList):
    """The first page of the questions, and what changes of it."""

    renderer_classes = (EventStreamRenderer,)
    page_parameters = frozenset({PAGE_SIZE})
    expansions: Mapping[str, Expansion] = {}

    @operation(
        "stream_interrupts",
        headers=(LAST_QUEUE_EVENT_ID,),
        responses={
            200: ResponseSpec(
                "Server-sent events.",
                schema=_EVENT,
                paged=True,
                media_type=EventStreamRenderer.media_type,
            )
        },
    )
    def get(self, request: Request) -> Any:
        """Tell which questions come to the first page of the list, change there and leave it.

        It takes the filters, the order and the `page_size` of `interrupts/`, and shows questions as
        that does. First comes an event `reset`, whose `results` are the whole page: put them in
        place of what you have. Then each event is `changes`: `added` and `changed` are questions,
        `removed` has the `id` and the `status` of each that isn't on the page any more, null where
        you may not see it. One that is still pending is behind the page, or fits the filters no
        longer.

        A stream ends after a while; come back with `Last-Event-ID`. You then get what has changed
        since, once, or where that isn't known a `reset`. A server that can't let you wait now
        answers at once with what there is.
        """
        last = self._read_last_event_id(request)
        self._read_page()  # what is wrong with a parameter is said before a stream begins
        if request.method == "HEAD":
            return Response(content_type=EventStreamRenderer.media_type)
        stream = QueueStream(
            [str(request.user.pk), sorted(request.query_params.items())],
            last,
            read=self._read_page,
            find_states=self._find_states,
            renew=self._renew_user,
        )
        return stream_response(request._request, stream.steps)

    def _read_last_event_id(self, request: Request) -> str:
        header = request.headers.get("Last-Event-ID", "")
        if header and re.fullmatch("[0-9a-f]{32}", header) is None:
            detail = "Must be an event id."
            raise InvalidRequest(InvalidParam("invalid", detail, header="Last-Event-ID"))
        return header

    def _read_page(self) -> Page:
        page: Page = self.render_page().data["results"]
        return page

    def _find_states(self, ids: list[str]) -> dict[str, str]:
        rows = querysets.visible_interrupts(self.request.user).filter(pk__in=ids)
        return {str(pk): str(status) for pk, status in rows.values_list("pk", "status")}

    def _renew_user(self) -> bool:
        user = querysets.reload_user(self.request.user)
        if user is None:
            return False
        self.request.user = user
        return True


#: It only reads, and an answer that waits should hold no transaction meanwhile.
view = transaction.non_atomic_requests(InterruptStream.as_view())
