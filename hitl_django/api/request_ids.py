"""Ids of HTTP requests, used in responses, problems and logs."""

from __future__ import annotations

import re
from uuid import uuid4

from django.http import HttpRequest

HEADER = "X-Request-ID"
_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def find_request_id(request: HttpRequest) -> str:
    """Return the request id that a client or proxy has set, or a new id.

    An invalid id is ignored, because the id is written to a header and to logs.
    """
    given = request.headers.get(HEADER, "")
    return given if _ID.fullmatch(given) else str(uuid4())
