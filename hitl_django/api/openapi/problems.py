"""Error responses of an operation: its declared errors, and the errors possible for any path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions

from hitl_django.engine.errors import PayloadLimitError

from ..operations import COMMON_HEADERS, RETRY_AFTER, HeaderSpec, Operation
from ..parsers import MalformedBody, UnstorableBody
from ..problem_extensions import NO_EXTENSIONS
from ..problems import CONTENT_TYPE, InvalidRequest, LengthRequired, ProblemType, find_type_of_class
from .schemas import ComponentSchemas

#: Errors that any request may cause.
COMMON_ERRORS = (
    BadRequest,
    InvalidRequest,
    exceptions.NotAuthenticated,
    exceptions.AuthenticationFailed,
    exceptions.PermissionDenied,
    exceptions.Throttled,
    OperationalError,
)
#: Errors that any request with a body may cause.
BODY_ERRORS = (
    MalformedBody,
    UnstorableBody,
    RequestDataTooBig,
    PayloadLimitError,
    LengthRequired,
    exceptions.UnsupportedMediaType,
)
#: The status of these errors is 403 if the authentication scheme has no challenge.
AUTHENTICATION_ERRORS = (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)

FAULT: dict[str, Any] = {
    "type": "object",
    "description": "A validation error and its location.",
    "properties": {
        "code": {"type": "string", "description": "Stable error code, for programs."},
        "detail": {"type": "string", "description": "Human-readable message."},
        "pointer": {
            "type": "string",
            "description": "JSON pointer into the request body; empty for the whole body.",
        },
        "parameter": {"type": "string", "description": "Query parameter name."},
        "header": {"type": "string", "description": "Header name."},
    },
    "required": ["code", "detail"],
}
CHALLENGE = HeaderSpec("WWW-Authenticate", "Authentication challenge.")
_HEADERS = {401: (CHALLENGE,), 429: (RETRY_AFTER,), 503: (RETRY_AFTER,)}


def list_problem_types(operation: Operation, *, names_object: bool) -> dict[int, list[ProblemType]]:
    """Return the problem types of an operation, by status.

    ``names_object`` is true if the path contains an id. The status 404 is then included.
    """
    found: dict[int, dict[str, ProblemType]] = defaultdict(dict)
    for problem_type in _iterate(operation, names_object):
        # If several errors have the same code, use the problem type with extensions.
        known = found[problem_type.status].get(problem_type.code)
        if known is None or known.extensions is NO_EXTENSIONS:
            found[problem_type.status][problem_type.code] = problem_type
    return {status: list(by_code.values()) for status, by_code in sorted(found.items())}


def _iterate(operation: Operation, names_object: bool) -> Iterator[ProblemType]:
    kinds: list[type[Exception]] = [*COMMON_ERRORS, *operation.errors]
    if operation.body is not None:
        kinds += BODY_ERRORS
    if names_object:
        kinds += [Http404]
    for kind in kinds:
        problem_type = find_type_of_class(kind)
        if problem_type is None:
            raise LookupError(f"{operation.id}: {kind.__name__} has no place in the table.")
        yield problem_type
        if kind in AUTHENTICATION_ERRORS:
            yield ProblemType(HTTPStatus.FORBIDDEN, problem_type.code)


def build_response(
    status: int, found: list[ProblemType], schemas: ComponentSchemas
) -> dict[str, Any]:
    """Return the OpenAPI response object of one status, for the problem types ``found``."""
    schemas.add("Fault", FAULT, InvalidRequest)
    refs = [_reference_problem(problem_type, schemas) for problem_type in found]
    response: dict[str, Any] = {
        "description": f"{HTTPStatus(status).phrase}: "
        + ", ".join(f"`{problem_type.code}`" for problem_type in found),
        "content": {CONTENT_TYPE: {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}},
    }
    response["headers"] = build_headers(_HEADERS.get(status, ()))
    return response


def build_headers(own: Iterable[HeaderSpec]) -> dict[str, Any]:
    """Return the OpenAPI header objects of a response: ``own`` and the common headers."""
    common = {
        header.name: {"$ref": f"#/components/headers/{header.name}"} for header in COMMON_HEADERS
    }
    return {**{header.name: build_header(header) for header in own}, **common}


def build_common_headers() -> dict[str, Any]:
    """Return the OpenAPI components for the headers that all responses have."""
    return {header.name: build_header(header) for header in COMMON_HEADERS}


def build_header(header: HeaderSpec) -> dict[str, Any]:
    """Return the OpenAPI header object of one header."""
    return {"description": header.description, "schema": dict(header.schema)}


def _reference_problem(problem_type: ProblemType, schemas: ComponentSchemas) -> dict[str, Any]:
    more = schemas.resolve(problem_type.extensions.schema)
    always = [name for name in more if name not in problem_type.extensions.sometimes]
    schema = {
        "type": "object",
        "description": f"A problem (RFC 9457) with the code `{problem_type.code}`.",
        "properties": {
            "type": {"const": "about:blank"},
            "title": {"type": "string", "examples": [HTTPStatus(problem_type.status).phrase]},
            "status": {"type": "integer", "examples": [int(problem_type.status)]},
            "code": {"const": problem_type.code},
            "detail": {
                "type": "string",
                "description": "Human-readable; may change.",
                "examples": [problem_type.detail or "Human-readable explanation."],
            },
            "request_id": {"type": "string", "description": "Same as the X-Request-ID header."},
            **more,
        },
        "required": ["type", "title", "status", "code", "detail", "request_id", *always],
    }
    name = "".join(part.capitalize() for part in problem_type.code.split("_")) + "Problem"
    return schemas.add(name, schema, ProblemType)
