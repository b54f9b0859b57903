"""Runs: start, list, read, cancel, retry."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from ... import services
from ...engine.errors import RunStateError, UnknownGraphError
from ...models import Interrupt, Run
from ...policy import get_policy
from .. import visible
from ..filters import RunFilter
from ..resource import Collection, Resource
from ..serializers import (
    CancelBody,
    EmptyBody,
    InterruptSerializer,
    RunInfoSerializer,
    RunSerializer,
    StartBody,
)


class RunList(Collection):
    """The runs; posting to them starts one."""

    serializer_class = RunSerializer
    filterset_class = RunFilter
    part = "/input"

    def get_queryset(self) -> QuerySet[Run]:
        rows = visible.runs(self.request.user).defer("error", "traceback")
        return rows.order_by("-created_at")

    def get(self, request: Request) -> Response:
        return self.page()

    def post(self, request: Request) -> Response:
        run = services.start(by=request.user, via="api", **self.body(StartBody))
        shown = self.render(RunInfoSerializer, run)
        # A key that was used before names the run it started: nothing was accepted just now.
        status = 202 if run.created else 200
        return Response(shown, status=status, headers={"Location": shown["url"]})


class RunDetail(Resource):
    """One run: where it is, what it asks, and once it is through, its result.

    ``error`` is there for operators only, ``result`` for those who may see the thread's state,
    once the run has succeeded and until another changes that state; otherwise the answer has no
    such members.
    """

    def get(self, request: Request, run_id: UUID) -> Response:
        run = visible.run(request.user, run_id)
        open_questions = (
            visible.interrupts(request.user)
            .filter(run=run, status=Interrupt.Status.PENDING)
            .defer("payload", "response_schema")
        )
        shown = self.render(RunSerializer, run)
        shown["interrupts"] = self.render(
            InterruptSerializer, open_questions.order_by("created_at", "pk"), many=True
        )
        return Response(shown | self.privileged(run))

    def privileged(self, run: Run) -> dict[str, Any]:
        policy, user = get_policy(), self.request.user
        more: dict[str, Any] = {}
        if policy.may_operate(user, run):
            more["error"] = run.error
        if policy.may_view_state(user, run.thread):
            try:
                more["result"] = services.run_result(run.pk, by=user)
            except (RunStateError, UnknownGraphError):
                pass  # not finished, overtaken by a later run, or of a graph that was removed
        return more


class RunCancel(Resource):
    """Ends a run; its open questions are closed with it."""

    def post(self, request: Request, run_id: UUID) -> Response:
        run = services.cancel(run_id, by=request.user, via="api", **self.body(CancelBody))
        return Response(self.render(RunInfoSerializer, run))


class RunRetry(Resource):
    """Queues a failed or parked run again, from where it stopped."""

    def post(self, request: Request, run_id: UUID) -> Response:
        self.body(EmptyBody)
        run = services.retry(run_id, by=request.user, via="api")
        shown = self.render(RunInfoSerializer, run)
        return Response(shown, status=202, headers={"Location": shown["url"]})
