"""Operations as in OpenAPI: declarations of the parameters, body and responses of a view's method.

A declaration takes effect at run time: only the declared query parameters and body are accepted,
and the declared throttle limits the calls. The OpenAPI document is generated from the same
declarations (openapi/). A declaration is therefore sufficient as the documentation of a view:

    class Ping(Resource):
        @operation("ping", responses={200: ResponseSpec("The server is up.", PingSerializer)})
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
    """A header of a request or a response."""

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
#: Headers that any response may have, in addition to those that its operation declares.
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
    """A successful response: its description and its content.

    ``serializer`` renders the body or, if ``paged`` is true, each result of a page. ``schema`` is
    for a JSON body without a serializer, and ``media_type`` for a body that is not JSON.
    ``other_media_types`` lists the text types available through content negotiation.
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

    ``query`` and ``body`` are serializer classes for the input. ``headers`` are the supported
    request headers. ``errors`` are exception classes in addition to those of every path
    (openapi/problems.py). ``throttle`` names the HITL setting with the rate limit per user, by
    default the general limit of reads or writes. ``keyed`` is true if the operation uses
    ``Resource.run_idempotent``.
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
    """Return a decorator that declares the operation of a view's method.

    The arguments are the fields of ``Operation``.
    """
    declaration = Operation(id, **declared)
    if declaration.keyed:
        declaration = _add_key(declaration)

    def declare(handler: Handler) -> Handler:
        handler.operation = declaration  # type: ignore[attr-defined]
        return handler

    return declare


def _add_key(declared: Operation) -> Operation:
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
    """Return the operation that a view declares for a method, or None.

    HEAD is treated like GET.
    """
    handler = getattr(view, "get" if method == "HEAD" else method.lower(), None)
    return getattr(handler, "operation", None)
