"""Response format of the office's own API: an envelope in all cases."""

from __future__ import annotations

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import BasePermission
from rest_framework.renderers import JSONRenderer


class Nobody(BasePermission):
    def has_permission(self, request, view):
        return False


class EnvelopeRenderer(JSONRenderer):
    def render(self, data, accepted_media_type=None, renderer_context=None):
        return super().render({"data": data}, accepted_media_type, renderer_context)


class FirstRenderer(BaseContentNegotiation):
    def select_parser(self, request, parsers):
        return parsers[0]

    def select_renderer(self, request, renderers, format_suffix=None):
        return renderers[0], renderers[0].media_type
