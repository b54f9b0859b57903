"""Request bodies without a Content-Length: read where the server says where they end.

A body that is sent in chunks has no Content-Length, and neither needs one under HTTP/2. Django's
WSGI half and DRF take such a one for empty. Here it is read as far as the view's limits go, by
whatever parser reads it; or refused, where the server doesn't say where it ends.
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
    """A request whose body is taken for empty only where it is."""

    _stream: Any

    @property
    def POST(self) -> QueryDict:  # type: ignore[override]
        """Is empty: no view of ours takes a form, so that a CSRF check reads no body for a token.

        It passes over a body that breaks off, and the view would find what is left of it.
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
    """Raise InvalidRequest where others on the way may see the body end elsewhere than we do."""
    length = request.META.get("CONTENT_LENGTH") or ""
    if length and not (length.isascii() and length.isdigit()):
        raise InvalidRequest(InvalidParam("invalid", "Must be a number.", header="Content-Length"))
    if length and "HTTP_TRANSFER_ENCODING" in request.META:
        detail = "Can't be combined with Content-Length."
        raise InvalidRequest(InvalidParam("invalid", detail, header="Transfer-Encoding"))


def find_unmeasured_body(request: HttpRequest) -> Readable | None:
    """Return the body of a request that has no Content-Length; None where it has none."""
    source: Readable
    if isinstance(request, ASGIRequest):
        source = request  # Django has read it all
    elif request.META.get("wsgi.input_terminated"):
        source = ServerInput(request.META["wsgi.input"])
    elif "HTTP_TRANSFER_ENCODING" in request.META:
        raise LengthRequired
    else:
        return None
    first = source.read(1)
    return PeekedBody(first, source) if first else None


class MeasuredBody:
    """A body that has to be as long as its request says.

    One that breaks off behind a whole JSON object would be taken for that, and not every server
    tells that there was more to come.
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
    """What a WSGI server reads from the network: each has errors of its own for what is broken."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._source.read(size))
        except Exception as error:
            raise UnreadablePostError(*error.args) from error


class PeekedBody:
    """A body of which the beginning was read, to see whether there is one."""

    def __init__(self, first: bytes, source: Readable) -> None:
        self._first, self._source = first, source

    def read(self, size: int, /) -> bytes:
        """Return so many bytes; fewer only at the end."""
        found, self._first = self._first[:size], self._first[size:]
        while len(found) < size and (more := self._source.read(size - len(found))):
            found += more
        return found
