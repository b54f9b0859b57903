"""Headers that make a write conditional: If-Match and Idempotency-Key, and the ETag they need."""

from __future__ import annotations

import re

from django.utils.http import parse_etags
from rest_framework.request import Request

from ..engine.errors import StaleQuestionError
from ..models import Interrupt
from .errors import InvalidRequest
from .faults import Fault

_ETAG = re.compile(r"(?P<version>\d{1,9})-(?P<digest>[0-9a-f]{32})-[a-z]+")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def etag_of(interrupt: Interrupt) -> str:
    """Return the ETag of a question: what its answer is bound to, and what became of it."""
    changed = "" if interrupt.changed_at is None else "changed"
    return f'"{interrupt.version}-{interrupt.payload_digest}-{interrupt.status}{changed}"'


def is_known(request: Request, interrupt: Interrupt) -> bool:
    """Say whether ``If-None-Match`` names the question as it still is."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    return known == ["*"] or etag_of(interrupt) in [tag.removeprefix("W/") for tag in known]


def expected(request: Request) -> tuple[str | None, int | None]:
    """Return the payload digest and row version that ``If-Match`` insists on.

    Two Nones without the header or for ``*``. A tag that is none of ours can't be the current
    one: StaleQuestionError. The status in the tag is not compared: that somebody else decided
    is told with the decision (409), not as a stale form (412).
    """
    header = request.headers.get("If-Match")
    if header is None:
        return None, None

    tags = parse_etags(header)
    if tags == ["*"]:
        return None, None
    if len(tags) != 1:
        detail = 'Has to be one ETag in double quotes, or "*".'
        raise InvalidRequest(Fault("invalid", detail, header="If-Match"))

    return bound_to(tags[0])


def bound_to(tag: str) -> tuple[str, int]:
    """Return the payload digest and row version that one of our ETags stands for, quoted or not."""
    ours = _ETAG.fullmatch(tag.strip('"'))
    if ours is None:
        raise StaleQuestionError()
    return ours["digest"], int(ours["version"])


def idempotency_key(request: Request) -> str:
    """Return the ``Idempotency-Key``, with or without its double quotes; "" without the header."""
    header = request.headers.get("Idempotency-Key")
    if header is None:
        return ""

    key = header.strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if _KEY.fullmatch(key) is None:
        detail = "Has to be 1 to 255 visible ASCII characters."
        raise InvalidRequest(Fault("invalid", detail, header="Idempotency-Key"))
    return key
