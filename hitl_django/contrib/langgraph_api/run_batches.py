"""View that starts several runs in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import transaction
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.operations import operation
from hitl_django.api.parsers import StrictArrayParser
from hitl_django.api.problems import InvalidRequest
from hitl_django.api.serializers.runs import MAX_BATCH_STARTS
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.models import Run

from .bodies import BatchItemBody
from .documents import build_run
from .resource import AgentResource
from .run_requests import start_or_resume_run


class AgentRunBatch(AgentResource):
    """View that starts runs on new threads: all runs of the request, or none."""

    parser_classes = (StrictArrayParser,)
    input_pointer = "/input"
    #: Index of the item that is processed. None before the first item.
    index: int | None = None

    @operation("create_runs", responses={}, throttle="THROTTLE_START")
    def post(self, request: Request) -> Response:
        items: Any = request.data
        if not 1 <= len(items) <= MAX_BATCH_STARTS:
            detail = f"The number of runs must be from 1 to {MAX_BATCH_STARTS}."
            raise InvalidRequest(InvalidParam("invalid", detail, pointer=""))
        assert self.throttle is not None
        if not self.throttle.allows_more(request, len(items) - 1):
            raise Throttled(self.throttle.wait())
        bodies = [self._read_item(index, item) for index, item in enumerate(items)]
        started = self._start_all(bodies)
        found = Run.objects.select_related("thread").in_bulk(started)
        return Response([build_run(found[run_id]) for run_id in started])

    def get_exception_handler(self) -> Callable[..., Response | None]:
        handle = super().get_exception_handler()

        def handle_and_name_item(error: Exception, context: Any) -> Response | None:
            response = handle(error, context)
            if response is not None and self.index is not None:
                self._name_item(response.data)
            return response

        return handle_and_name_item

    def _name_item(self, problem: Any) -> None:
        problem["detail"] = f"Run at index {self.index}: {problem['detail']}"
        for fault in problem.get("errors", ()):
            fault["pointer"] = f"/{self.index}{fault['pointer']}"

    def _read_item(self, index: int, item: Any) -> dict[str, Any]:
        self.index = index
        if not isinstance(item, dict):
            raise InvalidRequest(InvalidParam("invalid", "Must be a JSON object.", pointer=""))
        return self._validate(BatchItemBody, item)

    @retry_on_conflict
    def _start_all(self, bodies: list[dict[str, Any]]) -> list[UUID]:
        started = []
        # Each run has a new thread, so concurrent batches can't wait for each other's threads.
        with transaction.atomic(using=write_alias()):
            for index, body in enumerate(bodies):
                self.index = index
                started.append(start_or_resume_run(self.request.user, None, body).run_id)
        return started
