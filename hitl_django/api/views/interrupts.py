"""Questions: list, read, decide."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from ... import services
from ...conf import hitl
from ...models import Interrupt
from .. import visible
from ..conditions import etag_of, expected, idempotency_key, is_known
from ..filters import InterruptFilter
from ..resource import Collection, Resource
from ..serializers import (
    DecisionBody,
    DecisionSerializer,
    InterruptDetailSerializer,
    InterruptSerializer,
    absolute,
)
from ..strictjson import Limits


class InterruptList(Collection):
    """The questions; those that wait, unless ``status`` asks for others."""

    serializer_class = InterruptSerializer
    filterset_class = InterruptFilter

    def get_queryset(self) -> QuerySet[Interrupt]:
        rows = visible.interrupts(self.request.user).defer("payload", "response_schema")
        return rows.order_by("created_at")

    def get(self, request: Request) -> Response:
        return self.page()


class InterruptDetail(Resource):
    """One question, with all that is needed to answer it; the ETag is for ``If-Match``."""

    def get(self, request: Request, interrupt_id: UUID) -> Response:
        interrupt = visible.interrupt(request.user, interrupt_id)
        headers = {"ETag": etag_of(interrupt)}
        if is_known(request, interrupt):
            return Response(status=304, headers=headers)
        return Response(self.render(InterruptDetailSerializer, interrupt), headers=headers)


class Answering(Resource):
    """An address that takes a decision in its body."""

    part = "/value"

    @property
    def limits(self) -> Limits:  # type: ignore[override]
        # The service measures the answer itself. A body may be larger: a character written as
        # \uXXXX takes six bytes, and the answer is one level deep in it.
        return Limits(
            size=6 * hitl.ANSWER_MAX_BYTES,
            depth=hitl.ANSWER_MAX_DEPTH + 1,
            items=hitl.ANSWER_MAX_ITEMS + 10,
        )


class DecisionList(Answering):
    """The decisions on a question, newest first; posting to them decides.

    Exactly one decision wins. ``If-Match`` binds it to what was seen, ``Idempotency-Key`` lets
    it be sent again. ``Location`` is the run, which a worker has yet to advance.
    """

    def get(self, request: Request, interrupt_id: UUID) -> Response:
        interrupt = visible.interrupt(request.user, interrupt_id)
        results = self.render(DecisionSerializer, interrupt.decisions.all(), many=True)
        return Response({"next": None, "previous": None, "results": results})

    def post(self, request: Request, interrupt_id: UUID) -> Response:
        digest, version = expected(request)
        decision = services.decide(
            interrupt_id,
            by=request.user,
            via="api",
            key=idempotency_key(request),
            digest=digest,
            version=version,
            **self.body(DecisionBody),
        )
        headers = {"Location": absolute(request, "run", decision.run_id)}
        if decision.repeated:
            headers["Idempotent-Replayed"] = "true"
        return Response(self.render(DecisionSerializer, decision), status=202, headers=headers)


class DecisionValidation(Answering):
    """Says what a decision would hand to the graph, without deciding."""

    def post(self, request: Request, interrupt_id: UUID) -> Response:
        decision = self.body(DecisionBody)
        decision.pop("reason", None)
        resume = services.check_answer(interrupt_id, by=request.user, **decision)
        return Response({"valid": True, "resume": resume})
