"""What each error looks like over HTTP: one table, and RFC 9457 around it.

``code`` is stable and for programs, ``detail`` is for people and may change. The type of a
problem is ``about:blank``: its title is that of the status, and ``code`` says the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.http import Http404, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from hitl_django import errors
from hitl_django.db import outages
from hitl_django.errors import (
    CheckpointNotFound,
    InterruptNotFound,
    LinkNotFound,
    NotAllowedError,
    RunNotFound,
    SelfApprovalError,
    WebhookNotFound,
)

from . import invalid_params, problem_extensions
from .parsers import MalformedBody, UnstorableBody
from .problem_extensions import Members

logger = logging.getLogger("hitl_django")
CONTENT_TYPE = "application/problem+json"


class InvalidRequest(exceptions.APIException):
    """The request itself is wrong, whatever is stored: ``faults`` says where."""

    status_code = HTTPStatus.BAD_REQUEST
    default_code = "invalid_request"
    default_detail = "The request has fields, parameters or headers that can't be taken."

    def __init__(self, *found: invalid_params.InvalidParam) -> None:
        super().__init__()
        self.faults = found


class LengthRequired(exceptions.APIException):
    """The request may have a body, and the server doesn't show where it ends."""

    status_code = HTTPStatus.LENGTH_REQUIRED
    default_code = "length_required"
    default_detail = "This server takes no body in chunks: send it with a Content-Length."


@dataclass(frozen=True, slots=True)
class Answer:
    """How an error is answered; ``detail`` replaces the error's own words where set."""

    status: int
    code: str
    more: Members = problem_extensions.NONE
    detail: str | None = None


_UNAVAILABLE = Answer(
    503,
    "database_unavailable",
    # Of a connection that broke off at a commit nobody knows whether it was heard.
    detail="The database is away or busy. Try again in a few seconds; a write that was sent with "
    "a key is not carried out twice.",
)

#: The table. An error is answered by the entry of its nearest class; one without an entry is
#: a fault of ours or of the graph's author, and ends where the host's other exceptions do.
ANSWERS: dict[type[Exception], Answer] = {
    MalformedBody: Answer(400, "malformed_json", problem_extensions.BODY_FAULTS),
    UnstorableBody: Answer(422, "unstorable_value", problem_extensions.BODY_FAULTS),
    InvalidRequest: Answer(400, "invalid_request", problem_extensions.BODY_FAULTS),
    LengthRequired: Answer(411, "length_required"),
    errors.UnknownGraphError: Answer(
        404,
        "unknown_graph",
        # The error's own message lists the registered names, which are not everybody's to know.
        detail="No graph of that name is registered.",
    ),
    errors.BrokenGraphError: Answer(
        409,
        "graph_broken",
        # What its factory said may be nobody's to know either; graphs/ tells operators.
        detail="The graph can't be built here, so nothing can be done with it.",
    ),
    errors.InvalidInputError: Answer(422, "invalid_input", problem_extensions.INPUT_FAULTS),
    errors.EmptyInputError: Answer(422, "empty_input"),
    errors.InvalidUpdateError: Answer(422, "invalid_input"),
    errors.UnserializableError: Answer(422, "unserializable", problem_extensions.UNSERIALIZABLE),
    errors.PayloadLimitError: Answer(413, "too_large", problem_extensions.LIMIT),
    errors.GraphChangedError: Answer(409, "graph_changed"),
    errors.OpenQuestionsError: Answer(409, "thread_waiting", problem_extensions.OPEN_QUESTIONS),
    errors.NothingPendingError: Answer(409, "nothing_pending"),
    errors.UnknownInterruptError: Answer(409, "not_pending"),
    errors.AlreadyDecidedError: Answer(409, "already_decided", problem_extensions.WINNER),
    errors.AlreadyApprovedError: Answer(409, "already_approved", problem_extensions.WINNER),
    errors.ClaimRequiredError: Answer(409, "claim_required"),
    errors.StaleQuestionError: Answer(412, "stale_question"),
    errors.InvalidAnswerError: Answer(422, "invalid_answer", problem_extensions.ANSWER_FAULTS),
    errors.QuestionChangedError: Answer(409, "question_changed"),
    errors.IdempotencyKeyReusedError: Answer(422, "idempotency_key_reused"),
    errors.LeaseHeldError: Answer(409, "busy"),
    errors.HeldError: Answer(409, "held", problem_extensions.HELD),
    errors.RunStateError: Answer(409, "run_state", problem_extensions.RUN_STATE),
    NotAllowedError: Answer(403, "permission_denied"),
    SelfApprovalError: Answer(403, "self_approval"),
    errors.ThreadNotFound: Answer(404, "not_found"),
    RunNotFound: Answer(404, "not_found"),
    CheckpointNotFound: Answer(404, "not_found"),
    errors.EventsPrunedError: Answer(410, "events_pruned", problem_extensions.LAST_EVENT),
    InterruptNotFound: Answer(404, "not_found"),
    WebhookNotFound: Answer(404, "not_found"),
    LinkNotFound: Answer(404, "not_found"),
    errors.LinkSpentError: Answer(409, "link_spent"),
    Http404: Answer(404, "not_found", detail="There is nothing here that you may see."),
    PermissionDenied: Answer(403, "permission_denied", detail="You may not do that."),
    RequestDataTooBig: Answer(413, "too_large", detail="The body is too large."),
    SuspiciousOperation: Answer(400, "bad_request", detail="The request can't be understood."),
    BadRequest: Answer(400, "bad_request", detail="The request can't be understood."),
    MultiPartParserError: Answer(400, "bad_request", detail="The form can't be read."),
    UnreadablePostError: Answer(400, "bad_request", detail="The body ended too early."),
    # Whether nobody is signed in is 401 or 403 is for the authentication to say (RFC 9110 wants a
    # challenge beside 401, and not every scheme has one).
    exceptions.NotAuthenticated: Answer(401, "not_authenticated"),
    exceptions.AuthenticationFailed: Answer(401, "authentication_failed"),
    exceptions.PermissionDenied: Answer(403, "permission_denied"),
    exceptions.NotAcceptable: Answer(406, "not_acceptable"),
    exceptions.UnsupportedMediaType: Answer(415, "unsupported_media_type"),
    exceptions.Throttled: Answer(429, "throttled"),
    **dict.fromkeys(outages.ERRORS, _UNAVAILABLE),
}


def answer_to(error: Exception) -> Answer | None:
    """Return the table's entry for ``error``, that of its nearest class."""
    known = table_entry(type(error))
    if known is _UNAVAILABLE and not outages.is_outage(error):
        return None
    if isinstance(error, exceptions.APIException):
        if known is None:
            return Answer(error.status_code, _code(error))
        return replace(known, status=error.status_code)
    return known


def table_entry(kind: type[Exception]) -> Answer | None:
    """Return how errors of a class are answered."""
    return next((ANSWERS[near] for near in kind.__mro__ if near in ANSWERS), None)


def handle(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn an exception into a problem; None leaves it to the host.

    Used by our own views only: a host's ``EXCEPTION_HANDLER`` is neither used nor replaced.
    """
    answer = answer_to(error)
    if answer is None:
        return None

    if not isinstance(error, NotAllowedError):
        # Under ATOMIC_REQUESTS an answered error has to undo as a raised one does. What was not
        # allowed has been undone by the service, and its entry in the record is to stay.
        set_rollback()
    if answer is _UNAVAILABLE:
        # The client can't do anything about it, and whoever can has to hear of it.
        logger.error("the API can't reach the database", exc_info=error)
    body = problem(error, answer, context["view"].part)
    return Response(body, status=answer.status, headers=_headers(error), content_type=CONTENT_TYPE)


def problem(error: Exception, answer: Answer, part: str) -> dict[str, Any]:
    """Return the problem document (RFC 9457) of an error.

    ``part`` is the JSON pointer to what the service was given of the body.
    """
    return {
        "type": "about:blank",
        "title": HTTPStatus(answer.status).phrase,
        "status": int(answer.status),
        "code": answer.code,
        "detail": answer.detail or _detail(error),
        **answer.more.read(error, part),
    }


def _code(error: exceptions.APIException) -> str:
    codes = error.get_codes()
    return codes if isinstance(codes, str) else "invalid_request"


def _detail(error: Exception) -> str:
    if isinstance(error, exceptions.APIException) and not isinstance(error.detail, str):
        return str(error.default_detail)
    return str(getattr(error, "detail", error))


def _headers(error: Exception) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    wait = outages.WAIT if isinstance(error, outages.ERRORS) else getattr(error, "wait", None)
    if wait:
        headers["Retry-After"] = str(int(wait))
    return headers
