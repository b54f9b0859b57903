"""View of the workers' health."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services

from ..operations import ResponseSpec, operation
from ..serializers.workers import WorkerHealthSerializer
from .base import Resource


class WorkerHealthDetail(Resource):
    """The health of the workers, for operators."""

    @operation(
        "get_worker_health",
        responses={200: ResponseSpec("Health of the workers.", WorkerHealthSerializer)},
    )
    def get(self, request: Request) -> Response:
        """Retrieve the numbers of workers and overdue runs, and the time of the last heartbeat."""
        health = services.worker_health(by=request.user)
        return Response(self.render(WorkerHealthSerializer, health))
