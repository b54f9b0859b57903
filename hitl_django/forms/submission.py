"""Reading of a submitted form within Django's limits, and without files.

Django checks its limits during reading, and writes uploaded files to disk without counting their
size. This module checks the declared length before reading, and stops reading at the first file. No
form of this package accepts files.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, TooManyFieldsSent
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest, QueryDict
from django.http.multipartparser import MultiPartParserError

#: Errors raised by ``read_form`` for a form that exceeds Django's limits.
TOO_LARGE = (RequestDataTooBig, TooManyFieldsSent)
#: Errors raised by ``read_form`` for a form that can't be read completely.
UNREADABLE = (BadRequest, MultiPartParserError, OSError)

#: The maximum number of bytes read from a rejected body, and the bytes read at a time. Browsers
#: show no response before they have sent the whole body.
MOST, PART = 8 * 1024 * 1024, 64 * 1024


def read_form(request: HttpRequest) -> QueryDict:
    """Return the fields of a submitted form.

    After this call, Django's error reports, which may be sent by email, exclude the fields.

    Raises:
        One of the errors in TOO_LARGE or UNREADABLE.
    """
    hide_from_reports(request)
    try:
        _refuse_declared_length(request)
        if not hasattr(request, "_files"):  # A middleware of the project may have read the form.
            request.upload_handlers = [_NoFiles(request)]
        return request.POST
    except (*TOO_LARGE, *UNREADABLE):
        # Django does the same: accessing the form for an error report would raise the same error
        # again.
        request._mark_post_parse_error()  # type: ignore[attr-defined]
        raise


def hide_from_reports(request: HttpRequest) -> None:
    """Exclude the form's fields from Django's error reports, because a field may be secret."""
    request.sensitive_post_parameters = "__ALL__"  # type: ignore[attr-defined]


def discard_body(request: HttpRequest) -> None:
    """Read the rest of the body, up to a limit, so that the browser shows the error response."""
    read = 0
    try:
        while read < MOST and (part := request.read(PART)):
            read += len(part)
    except (OSError, ValueError):
        pass  # The body was already read, or the client disconnected.


class _NoFiles(FileUploadHandler):
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
