"""Page with metrics that Prometheus scrapes."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView

from hitl_django.permissions import get_policy

from .collector import HitlCollector

_registry = CollectorRegistry()
_registry.register(HitlCollector())


class MetricsPage(APIView):
    """Page with gauges as text, for users with the permission to view the health of workers.

    Users authenticate as for the API.
    """

    permission_classes = (IsAuthenticated,)
    schema: Any = None

    def get(self, request: Request) -> HttpResponse:
        if not get_policy().may_view_workers(request.user):
            raise PermissionDenied
        return HttpResponse(generate_latest(_registry), content_type=CONTENT_TYPE_LATEST)
