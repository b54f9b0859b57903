"""Operations (OpenAPI's word): what a view's method takes and answers, declared at the method.

The declaration is in force and not only written down: the query parameters and the body that it
names are those that are taken, its throttle is the one that holds, and the OpenAPI document is made
from nothing else (openapi/). So a view of its own needs no more than this to be in the document:

    class Ping(Resource):
        @operation("ping", responses={200: ResponseSpec("It is there.", PingSerializer)})
        def get(self, request): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rest_framework.serializers import Serializer

from hitl_django.errors import IdempotencyKeyReusedError

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HeaderSpec:
    """A header of a request or of a response."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


IF_MATCH = HeaderSpec(
    "If-Match",
    "ETag of the interrupt as you read it. The request fails with 412 if the interrupt "
    "has changed.",
    {"type": "string", "pattern": r'^(\*|(W/)?"[\x21\x23-\x7e]*")$'},
)
IF_NONE_MATCH = HeaderSpec("If-None-Match", "ETag you already have; returns 304 if unchanged.")
IDEMPOTENCY_KEY = HeaderSpec(
    "Idempotency-Key",
    "Idempotency key, 1 to 255 visible ASCII characters. Repeating a request with the "
    "same key returns the first result.",
    {"type": "string", "pattern": r'^("[\x21-\x7e]{1,253}"|[\x21-\x7e]{1,255})$'},
)
LAST_EVENT_ID = HeaderSpec(
    "Last-Event-ID",
    "Number of the last event received; takes precedence over `after`.",
    {"type": "string", "pattern": "^[0-9]{0,9}$"},
)
LAST_QUEUE_EVENT_ID = HeaderSpec(
    "Last-Event-ID",
    "Id of the last event received, for the same query parameters.",
    {"type": "string", "pattern": "^([0-9a-f]{32})?$"},
)
ETAG = HeaderSpec("ETag", "Changes whenever the representation changes.")
LOCATION = HeaderSpec("Location", "URL of the run.", {"type": "string", "format": "uri"})
MADE = HeaderSpec("Location", "URL of the created object.", {"type": "string", "format": "uri"})
REPLAYED = HeaderSpec(
    "Idempotent-Replayed",
    "Present if the request had already been processed.",
    {"const": "true"},
)
RETRY_AFTER = HeaderSpec(
    "Retry-After", "Seconds to wait before retrying.", {"type": "string", "pattern": "^[0-9]+$"}
)


REQUEST_ID = HeaderSpec(
    "X-Request-ID",
    "Request id, also included in problems and server logs. Your own id is used if it "
    "has 1 to 128 letters, digits and `._:/+=@-`.",
)
#: Headers that any answer may have, beside those that its operation declares.
COMMON_HEADERS = (
    REQUEST_ID,
    HeaderSpec(
        "RateLimit-Policy",
        "Rate limit: `q` requests per `w` seconds.",
    ),
    HeaderSpec("RateLimit", "Requests remaining (`r`) and seconds until the window resets (`t`)."),
)


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """A response that is no problem: what it means, what is in it.

    ``serializer`` renders its body, and where it is ``paged``, each result of a page. A body that
    no serializer renders has a JSON ``schema``; one that isn't JSON, another ``media_type``. A body
    that may be text of other types as well, for who accepts those, names them in
    ``other_media_types``.
    """

    description: str
    serializer: type[Serializer[Any]] | None = None
    paged: bool = False
    schema: Mapping[str, Any] | None = None
    headers: tuple[HeaderSpec, ...] = ()
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    ``query`` and ``body`` are serializers of what it takes, ``headers`` those it heeds, ``errors``
    the exceptions it answers besides those that every path does (openapi/problems.py), and
    ``throttle`` names the HITL setting with the rate that bounds it for each user, where that isn't
    the one for whatever reads, or for whatever changes something. A ``keyed`` one is
    carried out by ``Resource.run_idempotent``.
    """

    id: str
    responses: Mapping[int, ResponseSpec]
    query: type[Serializer[Any]] | None = None
    body: type[Serializer[Any]] | None = None
    headers: tuple[HeaderSpec, ...] = ()
    errors: tuple[type[Exception], ...] = ()
    throttle: str = ""
    example: Any = None
    keyed: bool = False


def operation(id: str, **declared: Any) -> Callable[[Handler], Handler]:  # noqa: A002
    """Declare what the method of a view takes and answers; the fields are those of Operation."""
    declaration = Operation(id, **declared)
    if declaration.keyed:
        declaration = _add_key(declaration)

    def declare(handler: Handler) -> Handler:
        handler.operation = declaration  # type: ignore[attr-defined]
        return handler

    return declare


def _add_key(declared: Operation) -> Operation:
    """Return the operation with what it says of its ``Idempotency-Key``."""
    responses = {
        status: replace(response, headers=(*response.headers, REPLAYED))
        for status, response in declared.responses.items()
    }
    return replace(
        declared,
        responses=responses,
        headers=(*declared.headers, IDEMPOTENCY_KEY),
        errors=(*declared.errors, IdempotencyKeyReusedError),
    )


def get_operation(view: Any, method: str) -> Operation | None:
    """Return the operation that a view declares for a method; HEAD is GET without the body."""
    handler = getattr(view, "get" if method == "HEAD" else method.lower(), None)
    return getattr(handler, "operation", None)
