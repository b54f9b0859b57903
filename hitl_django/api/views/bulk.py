"""Views that take several decisions or starts in one request, each in a transaction of its own."""

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


class SeveralResource(Resource):
    """A view that does several things in one request, each with a result of its own."""

    def do_each(
        self,
        items: list[dict[str, Any]],
        act: Callable[[int, dict[str, Any]], dict[str, Any]],
        point: Callable[[int, dict[str, Any]], str],
    ) -> list[dict[str, Any]]:
        """Return for each what ``act`` does, or its ``problem``, and the ``status`` of either.

        ``point`` gives the JSON pointer to the part of an item that its service is given.
        """
        assert self.throttle is not None
        if not self.throttle.allows_more(self.request, len(items) - 1):
            raise Throttled(self.throttle.wait())
        results: list[dict[str, Any]] = []
        for index, item in enumerate(items):
            if results and results[-1]["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
                # Each of the others would wait for the database for as long, and in vain.
                results.append(results[-1])
                continue
            try:
                results.append({"problem": None, **act(index, item)})
            except Exception as error:
                problem_type = find_problem_type(error)
                if problem_type is None:  # a fault of ours: for the host to log, as anywhere else
                    raise
                pointer = point(index, item)
                problem = build_problem(error, problem_type, pointer, self.request_id)
                results.append({"status": problem_type.status, "problem": problem})
        return results


class BulkDecisions(SeveralResource):
    """Decides questions one after the other; what becomes of one changes nothing for the next."""

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
        """Decide up to 100 questions: each in a transaction of its own, with its own result.

        A body that is wrong in any place is refused whole, before anything is decided. One
        Idempotency-Key holds for each of them: sent again, those that were taken are `repeated`.
        """
        key = read_idempotency_key(request)
        items = self.read_body()["decisions"]
        # What one body may hold is bounded, and so is what it may make the server do.
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


class RunBatch(SeveralResource):
    """Starts runs one after the other; what becomes of one changes nothing for the next."""

    @operation(
        "start_many",
        body=BatchBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={
            200: ResponseSpec("One result per decision, in request order.", BatchResultsSerializer)
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
        """Start up to 100 runs: each in a transaction of its own, with its own result.

        A body that is wrong in any place is refused whole, before anything is started. An
        Idempotency-Key holds for those that have no `key`, with the place of each behind it: sent
        again, those that were started are `repeated`.
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


#: Each is a transaction of its own. One for all of them would hold many threads' locks, in the
#: order of the request, and two such could wait for each other.
view = transaction.non_atomic_requests(BulkDecisions.as_view())
batch_view = transaction.non_atomic_requests(RunBatch.as_view())
