"""Which errors an operation answers: those it declares, and those that every address has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions

from hitl_django.engine.errors import PayloadLimitError

from ..operations import RETRY_AFTER, Header, Operation
from ..parsers import MalformedBody, UnstorableBody
from ..problem_extensions import NONE
from ..problems import CONTENT_TYPE, Answer, InvalidRequest, LengthRequired, table_entry
from .schemas import Schemas

#: What any request can be told, whatever it asks for.
ALWAYS = (
    BadRequest,
    InvalidRequest,
    exceptions.NotAuthenticated,
    exceptions.AuthenticationFailed,
    exceptions.PermissionDenied,
    exceptions.Throttled,
    OperationalError,
)
#: What a request with a body can be told.
OF_BODIES = (
    MalformedBody,
    UnstorableBody,
    RequestDataTooBig,
    PayloadLimitError,
    LengthRequired,
    exceptions.UnsupportedMediaType,
)
#: Where the authentication has no challenge to offer, it answers these with 403.
WITHOUT_CHALLENGE = (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)

FAULT: dict[str, Any] = {
    "type": "object",
    "description": "One thing that is wrong, and where.",
    "properties": {
        "code": {"type": "string", "description": "Stable, for programs."},
        "detail": {"type": "string", "description": "For people."},
        "pointer": {"type": "string", "description": "A JSON pointer; empty is the whole body."},
        "parameter": {"type": "string", "description": "The name of a query parameter."},
        "header": {"type": "string", "description": "The name of a header."},
    },
    "required": ["code", "detail"],
}
CHALLENGE = Header("WWW-Authenticate", "How to sign in.")
_HEADERS = {401: (CHALLENGE,), 429: (RETRY_AFTER,), 503: (RETRY_AFTER,)}


def answers_of(operation: Operation, *, has_place: bool) -> dict[int, list[Answer]]:
    """Returns the errors of an operation by status; ``has_place`` if its address names a thing."""
    found: dict[int, dict[str, Answer]] = defaultdict(dict)
    for answer in _all(operation, has_place):
        # Several errors may share a code; the one that tells more stands for all.
        known = found[answer.status].get(answer.code)
        if known is None or known.more is NONE:
            found[answer.status][answer.code] = answer
    return {status: list(by_code.values()) for status, by_code in sorted(found.items())}


def _all(operation: Operation, has_place: bool) -> Iterator[Answer]:
    kinds: list[type[Exception]] = [*ALWAYS, *operation.errors]
    if operation.body is not None:
        kinds += OF_BODIES
    if has_place:
        kinds += [Http404]
    for kind in kinds:
        answer = table_entry(kind)
        if answer is None:
            raise LookupError(f"{operation.id}: {kind.__name__} has no place in the table.")
        yield answer
        if kind in WITHOUT_CHALLENGE:
            yield Answer(HTTPStatus.FORBIDDEN, answer.code)


def response(status: int, found: list[Answer], schemas: Schemas) -> dict[str, Any]:
    """Returns the response object of one status."""
    schemas.add("Fault", FAULT, InvalidRequest)
    refs = [_problem(answer, schemas) for answer in found]
    told: dict[str, Any] = {
        "description": f"{HTTPStatus(status).phrase}: "
        + ", ".join(f"`{answer.code}`" for answer in found),
        "content": {CONTENT_TYPE: {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}},
    }
    if headers := _HEADERS.get(status):
        told["headers"] = {header.name: header_object(header) for header in headers}
    return told


def header_object(header: Header) -> dict[str, Any]:
    """Returns a header of an answer."""
    return {"description": header.about, "schema": dict(header.schema)}


def _problem(answer: Answer, schemas: Schemas) -> dict[str, Any]:
    """Registers the schema of all problems with one code, and returns the reference to it."""
    more = schemas.resolve(answer.more.schema)
    always = [name for name in more if name not in answer.more.sometimes]
    schema = {
        "type": "object",
        "description": f"A problem (RFC 9457) with the code `{answer.code}`.",
        "properties": {
            "type": {"const": "about:blank"},
            "title": {"type": "string", "examples": [HTTPStatus(answer.status).phrase]},
            "status": {"type": "integer", "examples": [int(answer.status)]},
            "code": {"const": answer.code},
            "detail": {
                "type": "string",
                "description": "For people; may change.",
                "examples": [answer.detail or "What is wrong, in a sentence."],
            },
            **more,
        },
        "required": ["type", "title", "status", "code", "detail", *always],
    }
    name = "".join(part.capitalize() for part in answer.code.split("_")) + "Problem"
    return schemas.add(name, schema, Answer)
