"""Problem responses (RFC 9457): the table of exceptions and the exception handler.

Programs use ``code``, which is stable. People read ``detail``, which may change. The type of every
problem is ``about:blank``, so its title is the title of the HTTP status.
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
    NotAllowedError,
    RunNotFound,
    SelfApprovalError,
)

from . import invalid_params, problem_extensions
from .parsers import MalformedBody, UnstorableBody
from .problem_extensions import ProblemExtensions

logger = logging.getLogger("hitl_django")
CONTENT_TYPE = "application/problem+json"


class InvalidRequest(exceptions.APIException):
    """The request is invalid, independent of stored data.

    ``faults`` lists the errors.
    """

    status_code = HTTPStatus.BAD_REQUEST
    default_code = "invalid_request"
    default_detail = "The request has invalid fields, parameters or headers."

    def __init__(self, *found: invalid_params.InvalidParam) -> None:
        super().__init__()
        self.faults = found


class LengthRequired(exceptions.APIException):
    """The request may have a body, but the server doesn't provide the body's length."""

    status_code = HTTPStatus.LENGTH_REQUIRED
    default_code = "length_required"
    default_detail = "Chunked request bodies are not supported. Send a Content-Length header."


@dataclass(frozen=True, slots=True)
class ProblemType:
    """The status, code and extensions of a problem.

    If ``detail`` is set, it replaces the error's message.
    """

    status: int
    code: str
    extensions: ProblemExtensions = problem_extensions.NO_EXTENSIONS
    detail: str | None = None


_UNAVAILABLE = ProblemType(
    503,
    "database_unavailable",
    # If the connection fails during a commit, the result of the commit is unknown.
    detail="The database is unavailable or busy. Retry in a few seconds; a write with an "
    "idempotency key is not repeated.",
)

#: Problem types by exception class. The nearest class in the MRO applies. An error without a
#: problem type is a bug in this package or in a graph. The project's exception handling deals with
#: it.
PROBLEM_TYPES: dict[type[Exception], ProblemType] = {
    MalformedBody: ProblemType(400, "malformed_json", problem_extensions.BODY_FAULTS),
    UnstorableBody: ProblemType(422, "unstorable_value", problem_extensions.BODY_FAULTS),
    InvalidRequest: ProblemType(400, "invalid_request", problem_extensions.BODY_FAULTS),
    LengthRequired: ProblemType(411, "length_required"),
    errors.UnknownGraphError: ProblemType(
        404,
        "unknown_graph",
        # The error's own message lists the registered names. The user may not be allowed to see
        # them.
        detail="No graph with this name is registered.",
    ),
    errors.UnknownVersionError: ProblemType(
        409,
        "unknown_version",
        # The error's own message lists the versions. The user may not be allowed to see them.
        detail="The graph version this run is pinned to is not registered.",
    ),
    errors.BrokenGraphError: ProblemType(
        409,
        "graph_broken",
        # The error raised by the factory may be confidential. Operators see it in ``graphs/``.
        detail="This graph can't be loaded, so it can't be used.",
    ),
    errors.InvalidInputError: ProblemType(422, "invalid_input", problem_extensions.INPUT_FAULTS),
    errors.EmptyInputError: ProblemType(422, "empty_input"),
    errors.InvalidUpdateError: ProblemType(422, "invalid_input"),
    errors.UnserializableError: ProblemType(
        422, "unserializable", problem_extensions.UNSERIALIZABLE
    ),
    errors.PayloadLimitError: ProblemType(413, "too_large", problem_extensions.LIMIT),
    errors.GraphChangedError: ProblemType(409, "graph_changed"),
    errors.PendingInterruptsError: ProblemType(
        409, "thread_waiting", problem_extensions.OPEN_INTERRUPTS
    ),
    errors.NothingPendingError: ProblemType(409, "nothing_pending"),
    errors.UnknownInterruptError: ProblemType(409, "not_pending"),
    errors.AlreadyDecidedError: ProblemType(
        409, "already_decided", problem_extensions.WINNING_DECISION
    ),
    errors.AlreadyApprovedError: ProblemType(
        409, "already_approved", problem_extensions.WINNING_DECISION
    ),
    errors.ClaimRequiredError: ProblemType(409, "claim_required"),
    errors.StaleInterruptError: ProblemType(412, "stale_interrupt"),
    errors.InvalidAnswerError: ProblemType(422, "invalid_answer", problem_extensions.ANSWER_FAULTS),
    errors.InterruptChangedError: ProblemType(409, "interrupt_changed"),
    errors.ThreadExistsError: ProblemType(409, "thread_exists"),
    errors.IdempotencyKeyReusedError: ProblemType(422, "idempotency_key_reused"),
    errors.LeaseTakenError: ProblemType(409, "busy"),
    errors.UndoRefusedError: ProblemType(409, "undo_refused"),
    errors.ClaimedError: ProblemType(409, "claimed", problem_extensions.CLAIMED),
    errors.RunStateError: ProblemType(409, "run_state", problem_extensions.RUN_STATE),
    NotAllowedError: ProblemType(403, "permission_denied"),
    SelfApprovalError: ProblemType(403, "self_approval"),
    errors.ThreadNotFound: ProblemType(404, "not_found"),
    RunNotFound: ProblemType(404, "not_found"),
    CheckpointNotFound: ProblemType(404, "not_found"),
    errors.EventsPrunedError: ProblemType(410, "events_pruned", problem_extensions.LAST_EVENT),
    InterruptNotFound: ProblemType(404, "not_found"),
    Http404: ProblemType(404, "not_found", detail="Not found."),
    PermissionDenied: ProblemType(403, "permission_denied", detail="Permission denied."),
    RequestDataTooBig: ProblemType(413, "too_large", detail="The request body is too large."),
    SuspiciousOperation: ProblemType(400, "bad_request", detail="Malformed request."),
    BadRequest: ProblemType(400, "bad_request", detail="Malformed request."),
    MultiPartParserError: ProblemType(400, "bad_request", detail="Malformed form data."),
    UnreadablePostError: ProblemType(
        400, "bad_request", detail="The request body ended unexpectedly."
    ),
    # The authentication class determines whether the status is 401 or 403. RFC 9110 requires a
    # challenge with 401, and not every scheme has a challenge.
    exceptions.NotAuthenticated: ProblemType(401, "not_authenticated"),
    exceptions.AuthenticationFailed: ProblemType(401, "authentication_failed"),
    exceptions.PermissionDenied: ProblemType(403, "permission_denied"),
    exceptions.NotAcceptable: ProblemType(406, "not_acceptable"),
    exceptions.UnsupportedMediaType: ProblemType(415, "unsupported_media_type"),
    exceptions.Throttled: ProblemType(429, "throttled"),
    **dict.fromkeys(outages.ERRORS, _UNAVAILABLE),
}


def find_problem_type(error: Exception) -> ProblemType | None:
    """Return the problem type of an error, or None if its class and base classes have none."""
    known = find_type_of_class(type(error))
    if known is _UNAVAILABLE and not outages.is_outage(error):
        return None
    if isinstance(error, exceptions.APIException):
        if known is None:
            return ProblemType(error.status_code, _find_code(error))
        return replace(known, status=error.status_code)
    return known


def find_type_of_class(kind: type[Exception]) -> ProblemType | None:
    """Return the problem type of an exception class or of its nearest base class that has one.

    A class has a problem type if it is in PROBLEM_TYPES, or if it defines ``http_status`` and
    ``code``, like the exceptions of optional apps. Returns None if neither the class nor a base
    class has a problem type.
    """
    for near in kind.__mro__:
        if near in PROBLEM_TYPES:
            return PROBLEM_TYPES[near]
        if {"http_status", "code"} <= vars(near).keys():
            return ProblemType(near.http_status, near.code)  # type: ignore[attr-defined]
    return None


def _is_atomic(request: Any) -> bool:
    """Return whether the setting ATOMIC_REQUESTS applies to the view of the request.

    An open transaction is not sufficient evidence, because it may be the transaction of a
    ``TestCase``.
    """
    match = None if request is None else request._request.resolver_match
    return match is None or not getattr(match.func, "_non_atomic_requests", None)


def handle_exception(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Return the problem response for an exception, or None if the exception has no problem type.

    Exceptions of REST framework, exceptions in PROBLEM_TYPES and exceptions of optional apps with
    an ``http_status`` have a problem type. Only the views of this API use this handler. The
    project's ``EXCEPTION_HANDLER`` is neither used nor replaced.
    """
    problem_type, view = find_problem_type(error), context["view"]
    if problem_type is None:
        return None

    if not isinstance(error, NotAllowedError) and _is_atomic(context.get("request")):
        # Under ATOMIC_REQUESTS, a handled error must cause a rollback like an unhandled one. After
        # a denial, the service has already rolled back, and its audit log entry must not be rolled
        # back.
        set_rollback()
    if problem_type is _UNAVAILABLE:
        # The client can't fix this error, so inform the operators.
        logger.error(
            "the API can't reach the database, request %s", view.request_id, exc_info=error
        )
    body = build_problem(error, problem_type, view.input_pointer, view.request_id)
    return Response(
        body,
        status=problem_type.status,
        headers=_build_headers(error),
        content_type=CONTENT_TYPE,
    )


def build_problem(
    error: Exception, problem_type: ProblemType, input_pointer: str, request_id: str
) -> dict[str, Any]:
    """Return the problem document (RFC 9457) of an error.

    ``input_pointer`` is the JSON pointer to the part of the body that the service received.
    """
    return {
        "type": "about:blank",
        "title": HTTPStatus(problem_type.status).phrase,
        "status": int(problem_type.status),
        "code": problem_type.code,
        "detail": problem_type.detail or _find_detail(error),
        "request_id": request_id,
        **problem_type.extensions.read(error, input_pointer),
    }


def _find_code(error: exceptions.APIException) -> str:
    codes = error.get_codes()
    return codes if isinstance(codes, str) else "invalid_request"


def _find_detail(error: Exception) -> str:
    if isinstance(error, exceptions.APIException) and not isinstance(error.detail, str):
        return str(error.default_detail)
    return str(getattr(error, "detail", error))


def _build_headers(error: Exception) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    wait = outages.WAIT if isinstance(error, outages.ERRORS) else getattr(error, "wait", None)
    if wait:
        headers["Retry-After"] = str(int(wait))
    return headers
