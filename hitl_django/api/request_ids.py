"""Request ids: what names one request in its answer, in its problem and in the log."""

from __future__ import annotations

import re
from uuid import uuid4

from django.http import HttpRequest

HEADER = "X-Request-ID"
_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def find_request_id(request: HttpRequest) -> str:
    """Return the id that a client or a proxy has given a request, or else a new one.

    One that isn't well-formed is none: it goes back in a header, and into the log.
    """
    given = request.headers.get(HEADER, "")
    return given if _ID.fullmatch(given) else str(uuid4())
