"""Views of interrupts and their decisions: list, detail, decide and validate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors, services
from hitl_django.conf import hitl
from hitl_django.errors import SelfApprovalError
from hitl_django.models import Interrupt, Run
from hitl_django.models.review import LARGE_COLUMNS

from .. import querysets
from ..expansions import Expansion
from ..filters import InterruptFilterSet
from ..operations import (
    ETAG,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    LOCATION,
    REPLAYED,
    RETRY_AFTER,
    ResponseSpec,
    operation,
)
from ..parsers import BodyLimits
from ..preconditions import build_etag, is_unchanged, parse_if_match, read_idempotency_key
from ..serializers.fields import WaitQuery, build_url
from ..serializers.interrupts import (
    DecisionBody,
    DecisionSerializer,
    InterruptDetailSerializer,
    InterruptSerializer,
    ValidationSerializer,
)
from ..serializers.runs import RunSerializer
from ..serializers.threads import ThreadSerializer
from ..waiting_response import answer_once
from .base import Collection, Resource
from .threads import find_threads

#: Errors that reject a decision.
REFUSALS = (
    errors.AlreadyDecidedError,
    errors.AlreadyApprovedError,
    errors.ClaimRequiredError,
    SelfApprovalError,
    errors.ClaimedError,
    errors.RunStateError,
    errors.LeaseTakenError,
    errors.StaleInterruptError,
    errors.InvalidAnswerError,
    errors.UnserializableError,
    errors.IdempotencyKeyReusedError,
)


def _find_runs(user: Any, interrupts: Sequence[Interrupt]) -> Iterator[tuple[str, Run]]:
    found = querysets.visible_runs(user).filter(pk__in={row.run_id for row in interrupts})
    return ((str(run.pk), run) for run in found.defer(*Run.LARGE_COLUMNS))


class InterruptList(Collection):
    """List of interrupts. Without the filter ``status``, only pending interrupts are listed."""

    serializer_class = InterruptSerializer
    filterset_class = InterruptFilterSet
    expansions: Mapping[str, Expansion] = {
        "run": Expansion(RunSerializer, _find_runs),
        "thread": Expansion(ThreadSerializer, find_threads),
    }

    def get_queryset(self) -> QuerySet[Interrupt]:
        rows = querysets.visible_interrupts(self.request.user).defer(*LARGE_COLUMNS)
        return rows.order_by("created_at")

    @operation(
        "list_interrupts",
        query=WaitQuery,
        responses={
            200: ResponseSpec(
                "A page of interrupts.", InterruptSerializer, paged=True, headers=(RETRY_AFTER,)
            )
        },
    )
    def get(self, request: Request) -> Any:
        """List the interrupts that you can view.

        By default, the list contains the pending interrupts, oldest first. With `wait`, the
        response is sent as soon as an interrupt matches the filters. If no interrupt matches for
        `wait` seconds, the response is an empty page. For example, `?unclaimed=true&wait=25` waits
        for an interrupt that you can claim, and `?run=…&wait=25` waits for the interrupts of a run.
        If too many requests are already waiting, the server responds immediately, with Retry-After.
        """
        seconds = self.read_query().get("wait", 0)
        response = self.render_page()
        if not seconds or response.data["results"] or request.method == "HEAD":
            return response
        return answer_once(
            request._request,
            response,
            seconds,
            lambda: self.render_page().data,
            lambda page: page["results"],
            lambda page: page,
        )


class InterruptResource(Resource):
    """Base class of views that return an interrupt with all details and may wait for a decision."""

    def wait_until_settled(self, interrupt: Interrupt, seconds: float, response: Response) -> Any:
        """Return a response that is sent when the interrupt is settled.

        An interrupt is settled if it is closed and its decision can't be undone. The response
        contains the interrupt, and is sent after ``seconds`` at the latest. If the interrupt is
        already settled, or if too many requests are waiting, return ``response`` instead.
        """

        def find() -> Interrupt:
            rows = querysets.visible_interrupts(self.request.user).select_related("run")
            return rows.filter(pk=interrupt.pk).first() or interrupt

        if not seconds or interrupt.is_settled:
            return response
        # The ETag would be that of the pending interrupt.
        response.headers.pop("ETag", None)
        return answer_once(
            self.request._request,
            response,
            seconds,
            find,
            lambda found: found.is_settled,
            lambda found: self.render(InterruptDetailSerializer, found),
        )


class InterruptDetail(InterruptResource):
    """One interrupt with all details.

    The response's ETag can be sent in ``If-Match``.
    """

    @operation(
        "get_interrupt",
        query=WaitQuery,
        headers=(IF_NONE_MATCH,),
        responses={
            200: ResponseSpec(
                "The interrupt.", InterruptDetailSerializer, headers=(ETAG, RETRY_AFTER)
            ),
            304: ResponseSpec("The interrupt has not changed.", headers=(ETAG,)),
        },
    )
    def get(self, request: Request, interrupt_id: UUID) -> Any:
        """Retrieve an interrupt with all details.

        Send the response's ETag in If-Match to decide this version of the interrupt. With `wait`,
        the response is sent when the interrupt is settled, but at the latest after `wait` seconds.
        A response that has waited contains no ETag. If too many requests are already waiting, the
        server responds immediately, with Retry-After.
        """
        seconds = self.read_query().get("wait", 0)
        interrupt = self.find(querysets.visible_interrupts, pk=interrupt_id)
        headers = {"ETag": build_etag(interrupt)}
        if is_unchanged(request, interrupt):
            return Response(status=304, headers=headers)
        response = Response(self.render(InterruptDetailSerializer, interrupt), headers=headers)
        seconds = 0 if request.method == "HEAD" else seconds
        return self.wait_until_settled(interrupt, seconds, response)

    @operation(
        "withdraw",
        responses={204: ResponseSpec("Interrupt withdrawn.")},
        errors=(errors.AlreadyDecidedError, errors.RunStateError, errors.LeaseTakenError),
    )
    def delete(self, request: Request, interrupt_id: UUID) -> Response:
        """Withdraw a pending interrupt, and cancel its run.

        You can withdraw interrupts that you created with `POST interrupts/`. For other interrupts,
        you need permission to cancel the run. The interrupt remains, with the status `cancelled`.
        If the interrupt is already withdrawn, the status is also 204.
        """
        services.withdraw(interrupt_id, by=request.user, via="api")
        return Response(status=204)


class DecisionResource(Resource):
    """Base class of views whose body is a decision."""

    input_pointer = "/value"

    def read_decision(self) -> dict[str, Any]:
        """Return the fields of the decision in the body.

        Also set ``self.input_pointer`` to the JSON pointer of the field that contains the value.
        Errors that the service raises about the value are located relative to this field.
        """
        body = self.read_body()
        self.input_pointer = "/resume" if "resume" in body else "/value"
        return body

    @property
    def limits(self) -> BodyLimits:  # type: ignore[override]
        # The service limits the value itself. The body may be larger than the value, because a
        # character escaped as \uXXXX takes six bytes. The value is nested one level deep.
        return BodyLimits(
            size=6 * hitl.RESPONSE_MAX_BYTES,
            depth=hitl.RESPONSE_MAX_DEPTH + 1,
            items=hitl.RESPONSE_MAX_ITEMS + 10,
        )


class DecisionList(DecisionResource):
    """The decisions on an interrupt, newest first.

    A POST request decides the interrupt. Exactly one decision closes an interrupt. ``If-Match``
    binds the decision to the version that the client has read. ``Idempotency-Key`` makes it safe to
    repeat the request. After the decision, a worker resumes the run. ``Location`` is the URL of the
    run.
    """

    @operation(
        "list_decisions",
        responses={200: ResponseSpec("List of decisions.", DecisionSerializer, paged=True)},
    )
    def get(self, request: Request, interrupt_id: UUID) -> Response:
        """List the decisions on an interrupt, newest first.

        If an interrupt requires several approvals, the list contains each approval. The list also
        contains decisions that the graph rejected.
        """
        interrupt = self.find(querysets.visible_interrupts, pk=interrupt_id)
        return self.render_all(DecisionSerializer, interrupt.decisions.all())

    @operation(
        "decide",
        body=DecisionBody,
        headers=(IF_MATCH, IDEMPOTENCY_KEY),
        responses={
            202: ResponseSpec(
                "Decision recorded. A worker will resume the run.",
                DecisionSerializer,
                headers=(LOCATION, REPLAYED),
            ),
            200: ResponseSpec(
                "Decision recorded. More approvals are needed before the run resumes.",
                DecisionSerializer,
                headers=(LOCATION, REPLAYED),
            ),
        },
        errors=REFUSALS,
        throttle="THROTTLE_DECIDE",
        example={"type": "edit", "value": {"amount": 5000}, "reason": "Half, as agreed."},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Decide an interrupt.

        If the interrupt is already decided, the status is 409, and the problem contains the
        decision.
        """
        body, key = self.read_decision(), read_idempotency_key(request)
        # Parse the header last, because an outdated ETag is an error about the interrupt, not about
        # the request.
        digest, version = parse_if_match(request)
        decision = services.decide(
            interrupt_id,
            by=request.user,
            via="api",
            key=key,
            digest=digest,
            version=version,
            **body,
        )
        headers = {"Location": build_url(request, "run", decision.run_id)}
        if decision.repeated:
            headers["Idempotent-Replayed"] = "true"
        status = 202 if decision.complete else 200
        return Response(self.render(DecisionSerializer, decision), status=status, headers=headers)


class DecisionValidation(DecisionResource):
    """Validation of a decision.

    The response contains the resume value that the decision would send to the graph.
    """

    @operation(
        "validate_decision",
        body=DecisionBody,
        responses={200: ResponseSpec("The decision is valid.", ValidationSerializer)},
        errors=REFUSALS,
        example={"type": "approve"},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Validate a decision without storing it."""
        decision = self.read_decision()
        decision.pop("ignore_claim", None)  # The claim may change before the decision.
        resume = services.check_answer(interrupt_id, by=request.user, **decision)
        return Response({"valid": True, "resume": resume})


#: A waiting response must not keep a transaction open, because it would see no new commits.
detail_view = transaction.non_atomic_requests(InterruptDetail.as_view())
