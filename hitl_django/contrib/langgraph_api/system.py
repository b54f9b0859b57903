"""Views ``/ok`` and ``/info``: the health and the capabilities of the server."""

from __future__ import annotations

from django.apps import apps
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from hitl_django.api.operations import operation

from .resource import AgentResource

#: The app without which there are no crons.
SCHEDULES = "hitl_django.contrib.schedules"


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
        # Capabilities in addition to runs and threads.
        flags = {"assistants": True, "crons": apps.is_installed(SCHEDULES), "langsmith": False}
        return Response({"version": "hitl-django", "flags": flags})
