"""Views ``/ok`` and ``/info``: the health and the capabilities of the server."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from hitl_django.api.operations import operation

from .resource import AgentResource

#: Capabilities of the server in addition to runs and threads.
FLAGS = {"assistants": True, "crons": False, "langsmith": False}


class Health(AgentResource):
    """View of the server's health.

    No authentication is required.
    """

    permission_classes = ()  # type: ignore[assignment]

    def get_authenticators(self) -> list[BaseAuthentication]:
        return []

    def get_throttles(self) -> list[BaseThrottle]:
        return []

    @operation("ok", responses={})
    def get(self, request: Request) -> Response:
        return Response({"ok": True})


class Info(AgentResource):
    """View of the server's capabilities."""

    @operation("info", responses={})
    def get(self, request: Request) -> Response:
        return Response({"version": "hitl-django", "flags": FLAGS})
