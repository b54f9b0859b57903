"""Views that process several decisions or starts.

Each decision or start has its own transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from ..serializers.runs import BatchBody, BatchResultsSerializer
from .base import Resource
from .runs import start_run


class BulkResource(Resource):
    """Base class of views that process several items, with one result for each item."""

    def do_each(
        self,
        items: list[dict[str, Any]],
        act: Callable[[int, dict[str, Any]], dict[str, Any]],
        point: Callable[[int, dict[str, Any]], str],
    ) -> list[dict[str, Any]]:
        """Call ``act`` for each item of a request, and return the results.

        ``act`` and ``point`` receive the index and the item. Each result has a ``status``. If
        ``act`` raises an error, the result has a ``problem``. ``point`` returns the JSON pointer to
        the part of the request body that ``act`` passes to a service. Errors are located relative
        to this part.
        """
        assert self.throttle is not None
        if not self.throttle.allows_more(self.request, len(items) - 1):
            raise Throttled(self.throttle.wait())
        results: list[dict[str, Any]] = []
        for index, item in enumerate(items):
            if results and results[-1]["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
                # The database is unavailable. The remaining items would wait for the same time and
                # fail too.
                results.append(results[-1])
                continue
            try:
                results.append({"problem": None, **act(index, item)})
            except Exception as error:
                problem_type = find_problem_type(error)
                if problem_type is None:  # The error is a bug in this package. The project logs it.
                    raise
                pointer = point(index, item)
                problem = build_problem(error, problem_type, pointer, self.request_id)
                results.append({"status": problem_type.status, "problem": problem})
        return results


class BulkDecisions(BulkResource):
    """Decide several interrupts one after the other. Each result is independent of the others."""

    @property
    def limits(self) -> BodyLimits:  # type: ignore[override]
        return BodyLimits(
            size=6 * hitl.RESPONSE_MAX_BYTES,
            depth=hitl.RESPONSE_MAX_DEPTH + 3,
            items=hitl.RESPONSE_MAX_ITEMS + 10 * MAX_BULK_DECISIONS,
        )

    @operation(
        "decide_many",
        body=BulkBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={
            200: ResponseSpec("One result per decision, in request order.", BulkResultsSerializer)
        },
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
        """Decide up to 100 interrupts, each in its own transaction.

        The response contains one result per decision. If any part of the body is invalid, no
        interrupt is decided. An Idempotency-Key is used as the key of each decision. If you repeat
        the request with the same key, results of decisions that are already recorded are marked as
        `repeated`.
        """
        key = read_idempotency_key(request)
        items = self.read_body()["decisions"]
        # The limit applies to the whole body.
        with schema_keywords.limit_work():
            results = self.do_each(items, partial(self._decide, key), _point_to_answer)
        shown = [
            {"interrupt": item["interrupt"], "repeated": False, "decision": None, **result}
            for item, result in zip(items, results, strict=True)
        ]
        return Response(self.render(BulkResultsSerializer, {"results": shown}))

    def _decide(self, key: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
        decision = dict(item)
        interrupt, etag = decision.pop("interrupt"), decision.pop("etag", "")
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
        status = 202 if made.complete else 200
        return {"status": status, "repeated": made.repeated, "decision": made}


def _point_to_answer(index: int, item: dict[str, Any]) -> str:
    return f"/decisions/{index}/{'resume' if 'resume' in item else 'value'}"


class RunBatch(BulkResource):
    """Start several runs one after the other. Each result is independent of the others."""

    @operation(
        "start_many",
        body=BatchBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={
            200: ResponseSpec("One result per run, in request order.", BatchResultsSerializer)
        },
        throttle="THROTTLE_START",
        example={
            "runs": [
                {"graph": "refund", "input": {"customer": "Dana K."}, "key": "refund:10443"},
                {"graph": "refund", "input": {"customer": "Ines"}, "key": "refund:10444"},
            ]
        },
    )
    def post(self, request: Request) -> Response:
        """Start up to 100 runs, each in its own transaction.

        The response contains one result per run. If any part of the body is invalid, no run is
        started. If a run has no `key`, the key is built from the Idempotency-Key and the run's
        position. If you repeat the request with the same Idempotency-Key, results of runs that have
        already been started are marked as `repeated`.
        """
        key = read_idempotency_key(request)
        items = self.read_body()["runs"]
        results = self.do_each(
            items, partial(self._start, key), lambda index, _: f"/runs/{index}/input"
        )
        shown = [{"repeated": False, "run": None, **result} for result in results]
        return Response(self.render(BatchResultsSerializer, {"results": shown}))

    def _start(self, key: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
        if key:
            item = {"key": f"{key}:{index}", **item}
        run = start_run(self.request.user, item)
        return {"status": 202 if run.created else 200, "repeated": not run.created, "run": run}


#: Each item has its own transaction. A single transaction would lock many threads in the order of
#: the request, and two such requests could deadlock.
view = transaction.non_atomic_requests(BulkDecisions.as_view())
batch_view = transaction.non_atomic_requests(RunBatch.as_view())
