"""View of the workers' health."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services

from ..operations import ResponseSpec, operation
from ..serializers.workers import WorkerHealthSerializer
from .base import Resource


class WorkerHealthDetail(Resource):
    """Whether anybody works, and how long what is due has waited; for operators."""

    @operation(
        "get_worker_health", responses={200: ResponseSpec("How they are.", WorkerHealthSerializer)}
    )
    def get(self, request: Request) -> Response:
        """Return whether workers report, and since when something waits for one."""
        health = services.worker_health(by=request.user)
        return Response(self.render(WorkerHealthSerializer, health))
