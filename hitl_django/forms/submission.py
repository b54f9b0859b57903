"""Reads a submitted form within Django's limits, and without files.

Django measures a form while it reads it, and doesn't count files, which it writes to disk. Here
the length that the request declares is compared before anything is read, and the first part that
is a file ends the reading: no form of this package asks for one.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, TooManyFieldsSent
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest, QueryDict
from django.http.multipartparser import MultiPartParserError

#: What ``read_form`` raises for a form that is larger than Django's limits.
TOO_LARGE = (RequestDataTooBig, TooManyFieldsSent)
#: What it raises for a form that can't be read, or only in part.
UNREADABLE = (BadRequest, MultiPartParserError, OSError)

#: Of a body that is refused so much is read: a browser shows no answer before it has sent it all.
MOST, PART = 8 * 1024 * 1024, 64 * 1024


def read_form(request: HttpRequest) -> QueryDict:
    """Return the fields of a form; one of TOO_LARGE or UNREADABLE where that can't be done.

    Django's error reports, which may be sent as email, leave out all of them from then on.
    """
    hide_from_reports(request)
    try:
        _refuse_declared_length(request)
        if not hasattr(request, "_files"):  # a middleware of the host's may have read it before
            request.upload_handlers = [_NoFiles(request)]
        return request.POST
    except (*TOO_LARGE, *UNREADABLE):
        # As Django does it: whoever reports the refusal would only run into it again.
        request._mark_post_parse_error()  # type: ignore[attr-defined]
        raise


def hide_from_reports(request: HttpRequest) -> None:
    """Leave the fields of a form out of Django's error reports: an answer may be a secret."""
    request.sensitive_post_parameters = "__ALL__"  # type: ignore[attr-defined]


def discard_body(request: HttpRequest) -> None:
    """Read on, within bounds, so that a browser gets to see why its form was refused."""
    read = 0
    try:
        while read < MOST and (part := request.read(PART)):
            read += len(part)
    except (OSError, ValueError):
        pass  # it was read, or whoever sent it is gone


class _NoFiles(FileUploadHandler):
    """Refuses a form at the first part that is a file."""

    def new_file(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise MultiPartParserError("File uploads are not accepted.")


def _refuse_declared_length(request: HttpRequest) -> None:
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise BadRequest("Content-Length must be a number.") from None
    if most is not None and length > most:  # type: ignore[redundant-expr]
        raise RequestDataTooBig("The form is larger than settings.DATA_UPLOAD_MAX_MEMORY_SIZE.")
