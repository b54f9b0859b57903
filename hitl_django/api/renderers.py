"""Renderers and content negotiation: JSON, whatever the host's DRF settings are."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.mediatypes import _MediaType


class PlainJSONRenderer(JSONRenderer):
    """Renders compact JSON in UTF-8, and nothing that isn't JSON."""

    ensure_ascii = False
    compact = True
    strict = True

    def get_indent(self, accepted_media_type: str, renderer_context: Any) -> None:
        """Return no indent: ``Accept: application/json; indent=9999`` is not a wish of ours."""


class EventStreamRenderer(PlainJSONRenderer):
    """Offers a stream of server-sent events; a response that is none is JSON all the same."""

    media_type = "text/event-stream"


class JSONOnlyNegotiation(DefaultContentNegotiation):
    """Answers in JSON, whatever is accepted (RFC 9110, 12.5.1 allows it) and without ``?format=``.

    A reader who asks for something else gets the answer and sees what it is, errors included.
    """

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class AcceptNegotiation(DefaultContentNegotiation):
    """Answers in what is accepted, in the view's order; what it hasn't is refused with 406."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        accepted = [_MediaType(each) for each in self.get_accept_list(request)]
        for renderer in renderers:
            if any(_MediaType(renderer.media_type).match(each) for each in accepted):
                return renderer, renderer.media_type
        raise NotAcceptable(available_renderers=renderers)
