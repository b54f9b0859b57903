"""View of the changes of the interrupt list, as server-sent events."""

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

#: JSON Schema of one event. OpenAPI tools expect it as the schema of a stream.
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
    """The first page of the interrupt list, followed by its changes."""

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
        """Stream the first page of the interrupt list and its changes.

        The stream accepts the filters, the order and the `page_size` of `interrupts/`, and contains
        interrupts in the format of `interrupts/`. The first event is `reset`. The `results` of a
        `reset` are the whole page and replace all earlier data. Each following event is `changes`.
        Its `added` and `changed` contain interrupts. Its `removed` contains the `id` and the
        `status` of each interrupt that left the page. The status is null if you can't view the
        interrupt. A removed interrupt that is still pending has moved to a later page, or no longer
        matches the filters.

        A stream ends after a few minutes. Reconnect with `Last-Event-ID` to receive all later
        changes in one event, or a `reset` if the server no longer knows the id. If too many
        requests are already waiting, the server immediately sends the available events and ends the
        stream.
        """
        last = self._read_last_event_id(request)
        self._read_page()  # Report invalid parameters before the stream begins.
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


#: The view only reads. A waiting response must not keep a transaction open.
view = transaction.non_atomic_requests(InterruptStream.as_view())
