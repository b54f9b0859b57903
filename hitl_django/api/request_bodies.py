"""Request bodies without a Content-Length.

Chunked bodies have no Content-Length, and HTTP/2 doesn't require one. Django's WSGI handler and DRF
treat a body without Content-Length as empty. If the server marks the end of the body, this module
reads the body within the view's limits. Otherwise, this module refuses the request.
"""

from __future__ import annotations

from typing import Any, Protocol

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, QueryDict, UnreadablePostError
from rest_framework.request import Request

from .invalid_params import InvalidParam
from .problems import InvalidRequest, LengthRequired


class Readable(Protocol):
    """A body that can be read in parts."""

    def read(self, size: int, /) -> bytes: ...


class BodyRequest(Request):
    """DRF request that detects correctly whether the body is empty."""

    _stream: Any

    @property
    def POST(self) -> QueryDict:  # type: ignore[override]
        """Return no form data, so that a CSRF check doesn't look for a token in the body.

        If the check read a truncated body, the check would ignore the error, and the view would
        read only the rest of the body, without an error.
        """
        return QueryDict()

    def _load_stream(self) -> None:
        refuse_ambiguous_length(self._request)
        super()._load_stream()  # type: ignore[misc]
        if self._stream is None:
            self._stream = find_unmeasured_body(self._request)
        else:
            self._stream = MeasuredBody(self._stream, int(self._request.META["CONTENT_LENGTH"]))


def refuse_ambiguous_length(request: HttpRequest) -> None:
    """Raise InvalidRequest if proxies and this server may disagree about the body's end."""
    length = request.META.get("CONTENT_LENGTH") or ""
    if length and not (length.isascii() and length.isdigit()):
        raise InvalidRequest(InvalidParam("invalid", "Must be a number.", header="Content-Length"))
    if length and "HTTP_TRANSFER_ENCODING" in request.META:
        detail = "Can't be combined with Content-Length."
        raise InvalidRequest(InvalidParam("invalid", detail, header="Transfer-Encoding"))


def find_unmeasured_body(request: HttpRequest) -> Readable | None:
    """Return the body of a request without a Content-Length, or None if the body is empty.

    Raises:
        LengthRequired: if there may be a body, but the server doesn't mark its end.
    """
    source: Readable
    if isinstance(request, ASGIRequest):
        source = request  # Django has already read the whole body.
    elif request.META.get("wsgi.input_terminated"):
        source = ServerInput(request.META["wsgi.input"])
    elif "HTTP_TRANSFER_ENCODING" in request.META:
        raise LengthRequired
    else:
        return None
    first = source.read(1)
    return PeekedBody(first, source) if first else None


class MeasuredBody:
    """A body that must be as long as its Content-Length.

    Not every server reports a truncated body. Without this check, a body that was cut after a
    complete JSON object would be accepted.
    """

    def __init__(self, source: Readable, length: int) -> None:
        self._source, self._left = source, length

    def read(self, size: int, /) -> bytes:
        wanted = min(size, self._left)
        found = self._source.read(wanted)
        if len(found) < wanted:
            raise UnreadablePostError("the body is shorter than its Content-Length")
        self._left -= wanted
        return found


class ServerInput:
    """A body that is read from a WSGI server.

    Errors that the server raises are converted to errors of the API.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._source.read(size))
        except Exception as error:
            raise UnreadablePostError(*error.args) from error


class PeekedBody:
    """A body whose first bytes were read to find out whether it is empty."""

    def __init__(self, first: bytes, source: Readable) -> None:
        self._first, self._source = first, source

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes, or fewer bytes at the end of the body."""
        found, self._first = self._first[:size], self._first[size:]
        while len(found) < size and (more := self._source.read(size - len(found))):
            found += more
        return found
