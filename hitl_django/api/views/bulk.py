"""View that takes several decisions in one request, each in a transaction of its own."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.db import transaction
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services
from hitl_django.conf import hitl
from hitl_django.json_text import schema_keywords

from ..operations import IDEMPOTENCY_KEY, ResponseSpec, operation
from ..parsers import BodyLimits
from ..preconditions import parse_etag, read_idempotency_key
from ..problems import build_problem, find_problem_type
from ..serializers.interrupts import MAX_BULK_DECISIONS, BulkBody, BulkResultsSerializer
from .base import Resource


class BulkDecisions(Resource):
    """Decides questions one after the other; what becomes of one changes nothing for the next."""

    @property
    def limits(self) -> BodyLimits:  # type: ignore[override]
        return BodyLimits(
            size=6 * hitl.ANSWER_MAX_BYTES,
            depth=hitl.ANSWER_MAX_DEPTH + 3,
            items=hitl.ANSWER_MAX_ITEMS + 10 * MAX_BULK_DECISIONS,
        )

    @operation(
        "decide_many",
        body=BulkBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={200: ResponseSpec("What became of each, in order.", BulkResultsSerializer)},
        throttle="THROTTLE_DECIDE",
        example={
            "decisions": [
                {"interrupt": "0f8fad5b-d9cb-469f-a165-70867728950e", "type": "approve"},
                {
                    "interrupt": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
                    "type": "reject",
                    "reason": "Too late.",
                },
            ]
        },
    )
    def post(self, request: Request) -> Response:
        """Decides up to 100 questions: each in a transaction of its own, with its own result.

        A body that is wrong in any place is refused whole, before anything is decided. One
        Idempotency-Key holds for each of them: sent again, those that were taken are `repeated`.
        """
        key = read_idempotency_key(request)
        items = self.read_body()["decisions"]
        assert self.throttle is not None
        if not self.throttle.allows_more(request, len(items) - 1):
            raise Throttled(self.throttle.wait())
        # What one body may hold is bounded, and so is what it may make the server do.
        with schema_keywords.limit_work():
            results = self._decide_each(key, items)
        return Response(self.render(BulkResultsSerializer, {"results": results}))

    def _decide_each(self, key: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for index, item in enumerate(items):
            if results and results[-1]["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
                # Each of the others would wait for the database for as long, and in vain.
                results.append({**results[-1], "interrupt": item["interrupt"]})
            else:
                results.append(self._decide(key, index, **item))
        return results

    def _decide(
        self, key: str, index: int, *, interrupt: Any, etag: str = "", **decision: Any
    ) -> dict[str, Any]:
        result = {"interrupt": interrupt, "repeated": False, "decision": None, "problem": None}
        try:
            digest, version = parse_etag(etag) if etag else (None, None)
            made = services.decide(
                interrupt,
                by=self.request.user,
                via="api",
                key=key,
                digest=digest,
                version=version,
                **decision,
            )
        except Exception as error:
            problem_type = find_problem_type(error)
            if problem_type is None:  # a fault of ours: for the host to log, as anywhere else
                raise
            part = "resume" if "resume" in decision else "value"
            described = build_problem(
                error, problem_type, f"/decisions/{index}/{part}", self.request_id
            )
            return {**result, "status": problem_type.status, "problem": described}
        status = 202 if made.complete else 200
        return {**result, "status": status, "repeated": made.repeated, "decision": made}


#: Each decision is a transaction of its own. One for all of them would hold many threads' locks, in
#: the order of the request, and two such could wait for each other.
view = transaction.non_atomic_requests(BulkDecisions.as_view())
