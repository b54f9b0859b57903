"""What an address takes and answers by one method, declared once at the method itself.

The declaration is in force and not only written down: the query parameters and the body that it
names are those that are taken, and the OpenAPI document is made from nothing else (openapi/). So
a view of its own needs no more than this to be in the document:

    class Ping(Resource):
        @operation("ping", answers={200: Shown("It is there.", PingSerializer)})
        def get(self, request): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rest_framework.serializers import Serializer

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a request or of an answer."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


IF_MATCH = Header(
    "If-Match",
    "The ETag of the question as it was shown: it is decided only while it is still that (412).",
    {"type": "string", "pattern": r'^(\*|(W/)?"[\x21\x23-\x7e]*")$'},
)
IF_NONE_MATCH = Header("If-None-Match", "The ETag of what is there already: unchanged is 304.")
IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    "1 to 255 visible ASCII characters: the same request with it again gets the first outcome.",
    {"type": "string", "pattern": r'^("[\x21-\x7e]{1,253}"|[\x21-\x7e]{1,255})$'},
)
LAST_EVENT_ID = Header(
    "Last-Event-ID",
    "The number of the last event that was received; it counts before `after`.",
    {"type": "string", "pattern": "^[0-9]{0,9}$"},
)
ETAG = Header("ETag", "Changes with what is shown.")
LOCATION = Header("Location", "The address of the run.", {"type": "string", "format": "uri"})
REPLAYED = Header(
    "Idempotent-Replayed",
    "There where the request had been carried out before.",
    {"const": "true"},
)
RETRY_AFTER = Header(
    "Retry-After", "Seconds after which to come back.", {"type": "string", "pattern": "^[0-9]+$"}
)


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer that is no problem: what it means, what is in it.

    ``by`` is the serializer that shows it, and ``paged`` a page of what it shows. What no
    serializer shows has a JSON ``schema`` of its own; what isn't JSON, its ``media`` type. What is
    shown as text of another type as well, for who accepts that, names it under ``also``.
    """

    about: str
    by: type[Serializer[Any]] | None = None
    paged: bool = False
    schema: Mapping[str, Any] | None = None
    headers: tuple[Header, ...] = ()
    media: str = "application/json"
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one address.

    ``query`` and ``body`` are serializers of what it takes, ``headers`` those it heeds, ``errors``
    the exceptions it answers besides those that every address does (openapi/problems.py), and
    ``throttle`` names the HITL setting with the rate that bounds it for each user, where that isn't
    the one for whatever reads, or for whatever changes something.
    """

    id: str
    answers: Mapping[int, Shown]
    query: type[Serializer[Any]] | None = None
    body: type[Serializer[Any]] | None = None
    headers: tuple[Header, ...] = ()
    errors: tuple[type[Exception], ...] = ()
    throttle: str = ""
    example: Any = None


def operation(id: str, **declared: Any) -> Callable[[Handler], Handler]:  # noqa: A002
    """Declares the method below it."""
    made = Operation(id, **declared)

    def declare(handler: Handler) -> Handler:
        handler.operation = made  # type: ignore[attr-defined]
        return handler

    return declare


def operation_of(view: Any, method: str) -> Operation | None:
    """Returns what a view declares for a method; HEAD is GET without the body."""
    handler = getattr(view, "get" if method == "HEAD" else method.lower(), None)
    return getattr(handler, "operation", None)
