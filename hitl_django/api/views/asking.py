"""View of ``interrupts/``: list interrupts, and create an interrupt without a graph."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from rest_framework.request import Request

from hitl_django import errors, services

from .. import querysets
from ..operations import IDEMPOTENCY_KEY, MADE, REPLAYED, RETRY_AFTER, ResponseSpec, operation
from ..preconditions import read_run_key
from ..serializers.asking import AskBody
from ..serializers.fields import WaitQuery
from ..serializers.interrupts import InterruptDetailSerializer
from .interrupts import InterruptList, InterruptResource


class AskedInterrupts(InterruptResource, InterruptList):
    """List of interrupts. A POST request creates an interrupt, without a graph of the project."""

    @operation(
        "ask",
        query=WaitQuery,
        body=AskBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={
            201: ResponseSpec(
                "The new interrupt.", InterruptDetailSerializer, headers=(MADE, RETRY_AFTER)
            ),
            200: ResponseSpec(
                "The interrupt previously created with this key and request.",
                InterruptDetailSerializer,
                headers=(MADE, REPLAYED, RETRY_AFTER),
            ),
        },
        errors=(
            errors.InvalidInputError,
            errors.InterruptNotFound,
            errors.UnserializableError,
            errors.IdempotencyKeyReusedError,
        ),
        throttle="THROTTLE_START",
        example={
            "payload": {"title": "Refund 99.00 EUR to Dana K.?", "order": "10443"},
            "response_schema": {"type": "object", "properties": {"cents": {"type": "integer"}}},
            "key": "refund:10443",
        },
    )
    def post(self, request: Request) -> Any:
        """Ask a person: create a pending interrupt.

        This requires the permission `add_interrupt`. Only one interrupt is created per `key`, which
        you can also send as Idempotency-Key. With `wait`, the response is sent when the interrupt
        is closed, but at the latest after `wait` seconds, in the format of `interrupts/{id}/`.
        `decision.value` is the reviewer's response. `run` is the id of the interrupt's run, which
        webhooks and events also contain.
        """
        body, seconds = self.read_body(), self.read_query().get("wait", 0)
        read_run_key(request, body)
        if "subject" in body:
            body["subject"] = services.SubjectRef(**body["subject"])
        asked = services.ask(by=request.user, via="api", **body)
        # A custom policy may hide the interrupt from the user who asked.
        interrupt = querysets.visible_interrupts(None).get(pk=asked.id)
        status = 201 if asked.created else 200
        response = self.render_made(InterruptDetailSerializer, interrupt, status=status)
        if not asked.created:
            response.headers[REPLAYED.name] = "true"
        return self.wait_until_settled(interrupt, seconds, response)


#: A waiting response must not keep a transaction open, because it would see no new commits.
list_view = transaction.non_atomic_requests(AskedInterrupts.as_view())
