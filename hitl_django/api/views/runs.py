"""Views of runs: list, start, detail, cancel and retry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors, services
from hitl_django.errors import RunStateError, UnknownGraphError
from hitl_django.models import Interrupt, Run
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import get_policy

from .. import querysets
from ..expansions import Expansion
from ..filters import RunFilterSet
from ..operations import (
    IDEMPOTENCY_KEY,
    LOCATION,
    REPLAYED,
    RETRY_AFTER,
    ResponseSpec,
    operation,
)
from ..preconditions import read_run_key
from ..serializers.fields import EmptyBody, WaitQuery
from ..serializers.interrupts import InterruptSerializer
from ..serializers.runs import (
    CancelBody,
    RunDetailSerializer,
    RunInfoSerializer,
    RunSerializer,
    StartBody,
    StartedRunSerializer,
)
from ..serializers.threads import ThreadSerializer
from ..waiting_response import answer_once
from .base import Collection, Resource
from .threads import find_threads


class RunResource(Resource):
    """Base class of views that return a run with all details.

    The response contains the run's ``error`` if the user may operate the run. The response contains
    ``result`` if the run has succeeded, no later run has changed the thread's state, and the user
    may view the result.
    """

    def render_detail(self, run: Run) -> dict[str, Any]:
        """Return the run with its pending interrupts, and the details visible to the user."""
        open_interrupts = (
            querysets.visible_interrupts(self.request.user)
            .filter(run=run, status=Interrupt.Status.PENDING)
            .defer(*LARGE_COLUMNS)
        )
        shown: dict[str, Any] = self.render(RunSerializer, run)
        shown["interrupts"] = self.render(
            InterruptSerializer, open_interrupts.order_by("created_at", "pk"), many=True
        )
        return shown | self.render_privileged(run)

    def render_privileged(self, run: Run) -> dict[str, Any]:
        """Return ``error`` and ``result`` of the run, each only if the user may view it."""
        policy, user = get_policy(), self.request.user
        more: dict[str, Any] = {}
        if policy.may_operate(user, run):
            more["error"] = run.error
        if run.state == Run.State.SUCCEEDED and policy.may_view_result(user, run):
            try:
                more["result"] = services.run_result(run.pk, by=user)
            except (RunStateError, UnknownGraphError):
                # The run has not succeeded, a later run has changed the state, or the graph was
                # removed.
                pass
        return more


def start_run(user: Any, wanted: dict[str, Any]) -> services.RunInfo:
    """Start a run. ``wanted`` contains the validated fields of a StartBody."""
    if "subject" in wanted:
        wanted = {**wanted, "subject": services.SubjectRef(**wanted["subject"])}
    return services.start(by=user, via="api", **wanted)


def _find_interrupts(user: Any, runs: Sequence[Run]) -> Iterator[tuple[str, Interrupt]]:
    found = querysets.visible_interrupts(user).filter(
        run__in=[run.pk for run in runs], status=Interrupt.Status.PENDING
    )
    rows = found.defer(*LARGE_COLUMNS).order_by("created_at", "pk")
    return ((str(row.run_id), row) for row in rows)


class RunList(RunResource, Collection):
    """List of runs.

    A POST request starts a run.
    """

    serializer_class = RunSerializer
    filterset_class = RunFilterSet
    expansions: Mapping[str, Expansion] = {
        "interrupts": Expansion(InterruptSerializer, _find_interrupts, is_many=True),
        "thread": Expansion(ThreadSerializer, find_threads),
    }
    input_pointer = "/input"

    def get_queryset(self) -> QuerySet[Run]:
        rows = querysets.visible_runs(self.request.user).defer(*Run.LARGE_COLUMNS)
        return rows.order_by("-created_at")

    @operation(
        "list_runs", responses={200: ResponseSpec("A page of runs.", RunSerializer, paged=True)}
    )
    def get(self, request: Request) -> Response:
        """List the runs that you can view, newest first."""
        return self.render_page()

    @operation(
        "start_run",
        query=WaitQuery,
        body=StartBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={
            202: ResponseSpec(
                "Run queued.",
                StartedRunSerializer,
                headers=(LOCATION, RETRY_AFTER),
            ),
            200: ResponseSpec(
                "The run previously started with this key and request.",
                StartedRunSerializer,
                headers=(LOCATION, REPLAYED, RETRY_AFTER),
            ),
        },
        errors=(
            errors.UnknownGraphError,
            errors.BrokenGraphError,
            errors.ThreadNotFound,
            errors.InvalidInputError,
            errors.EmptyInputError,
            errors.UnserializableError,
            errors.IdempotencyKeyReusedError,
            errors.PendingInterruptsError,
            errors.RunStateError,
            errors.GraphChangedError,
            errors.LeaseTakenError,
        ),
        throttle="THROTTLE_START",
        example={"graph": "refund", "input": {"customer": "Dana K."}, "key": "refund:10443"},
    )
    def post(self, request: Request) -> Any:
        """Start a run of a graph.

        Only one run is started per `key`, which you can also send as Idempotency-Key. With `wait`,
        the response is sent when the run has ended, is waiting for review or is parked, in the
        format of `runs/{id}/`. If this takes longer than `wait` seconds, the response contains the
        current state of the run, and the run continues. If too many requests are already waiting,
        the server responds immediately, with Retry-After.
        """
        body = self.read_body()
        seconds = self.read_query().get("wait", 0)
        read_run_key(request, body)
        run = start_run(request.user, body)
        # If the key was used before, the run already exists, so the status isn't 202.
        response = self.render_made(RunInfoSerializer, run, status=202 if run.created else 200)
        if not run.created:
            response.headers[REPLAYED.name] = "true"
        return self._wait(run.id, seconds, response) if seconds else response

    def _wait(self, run_id: UUID, seconds: float, response: Response) -> Any:
        """Return a response that is delayed until the started run pauses or ends.

        The delay is at most ``seconds``. If the user can't view the run, or if too many requests
        are waiting, return ``response`` immediately.
        """

        def find() -> Run | None:
            return querysets.visible_runs(self.request.user).filter(pk=run_id).first()

        run = find()
        if run is None:  # The user who starts a run may not be allowed to view it.
            return response
        response.data = self.render_detail(run)
        if run.is_at_rest:
            return response
        return answer_once(
            self.request._request,
            response,
            seconds,
            lambda: find() or run,  # The run may have been deleted or hidden since it was started.
            lambda run: run.is_at_rest,
            self.render_detail,
        )


class RunDetail(RunResource):
    """One run with its pending interrupts and, if it has succeeded, its result."""

    @operation("get_run", responses={200: ResponseSpec("The run.", RunDetailSerializer)})
    def get(self, request: Request, run_id: UUID) -> Response:
        """Retrieve a run with its state, its pending interrupts and its result."""
        return Response(self.render_detail(self.find(querysets.visible_runs, pk=run_id)))


class RunCancel(Resource):
    """The cancellation of a run. The run's pending interrupts are also closed."""

    @operation(
        "cancel_run",
        body=CancelBody,
        responses={200: ResponseSpec("The cancelled run.", RunInfoSerializer)},
        errors=(errors.RunStateError,),
        example={"reason": "The customer withdrew it."},
        keyed=True,
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        """Cancel a run that hasn't succeeded, and close its pending interrupts."""
        wanted = self.read_body()
        return self.run_idempotent(
            lambda: services.cancel(run_id, by=request.user, via="api", **wanted),
            self.find_run,
            lambda run: Response(self.render(RunInfoSerializer, run)),
        )


class RunRetry(Resource):
    """The retry of a failed or parked run."""

    @operation(
        "retry_run",
        body=EmptyBody,
        responses={202: ResponseSpec("Run queued.", RunInfoSerializer, headers=(LOCATION,))},
        keyed=True,
        errors=(errors.RunStateError,),
        example={},
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        """Queue a failed or parked run again.

        The run resumes from its last checkpoint.
        """
        self.read_body()
        return self.run_idempotent(
            lambda: services.retry(run_id, by=request.user, via="api"),
            self.find_run,
            lambda run: self.render_made(RunInfoSerializer, run),
        )


#: A waiting response must not keep a transaction open, because it would see no new commits.
list_view = transaction.non_atomic_requests(RunList.as_view())
