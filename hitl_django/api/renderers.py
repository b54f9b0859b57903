"""Renderers and content negotiation of the API, independent of the project's DRF settings."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.mediatypes import _MediaType


class PlainJSONRenderer(JSONRenderer):
    """Renderer of compact, valid JSON in UTF-8."""

    ensure_ascii = False
    compact = True
    strict = True

    def get_indent(self, accepted_media_type: str, renderer_context: Any) -> None:
        """Ignore the indent requested by ``Accept: application/json; indent=…``."""


class EventStreamRenderer(PlainJSONRenderer):
    """Renderer of server-sent events.

    Other responses of the view, for example errors, are JSON.
    """

    media_type = "text/event-stream"


class JSONOnlyNegotiation(DefaultContentNegotiation):
    """Content negotiation that always selects JSON, independent of ``Accept`` and ``?format=``.

    RFC 9110 (12.5.1) allows this. A client that asks for another type can then read the response,
    including errors.
    """

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class AcceptNegotiation(DefaultContentNegotiation):
    """Content negotiation that selects the first of the view's types that the client accepts.

    The status is 406 if the client accepts none of these types.
    """

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        accepted = [_MediaType(each) for each in self.get_accept_list(request)]
        for renderer in renderers:
            if any(_MediaType(renderer.media_type).match(each) for each in accepted):
                return renderer, renderer.media_type
        raise NotAcceptable(available_renderers=renderers)
