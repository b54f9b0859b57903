"""Headers that make a write conditional: If-Match and Idempotency-Key, and the ETag they need."""

from __future__ import annotations

import re
from typing import Any

from django.utils.http import parse_etags
from rest_framework.request import Request

from hitl_django.errors import StaleQuestionError
from hitl_django.models.fields import digest_json
from hitl_django.models.review import ETAG_COLUMNS

from .invalid_params import InvalidParam
from .problems import InvalidRequest

#: One strong ETag, which may hold commas; Django takes these for what parts several.
_ONE = re.compile(r'"[\x21\x23-\x7e]*"')
_ETAG = re.compile(r"(?P<version>\d{1,9})-(?P<digest>[0-9a-f]{32})-[a-z]+-[0-9a-f]{8}")
#: What may change of a question without another version of it.
_CHANGING = sorted((*ETAG_COLUMNS, "is_held", "is_overdue", "is_snoozed"))
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def etag_of(interrupt: Any) -> str:
    """Return the ETag of a question: what its answer is bound to, and all else that may change."""
    changed = "" if interrupt.changed_at is None else "changed"
    rest = [getattr(interrupt, name) for name in _CHANGING]
    mark = digest_json([str(value) for value in rest])[:8]
    return f'"{interrupt.version}-{interrupt.payload_digest}-{interrupt.status}{changed}-{mark}"'


def is_known(request: Request, interrupt: Any) -> bool:
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

    header = header.strip()
    tags = [header] if _ONE.fullmatch(header) else parse_etags(header)
    if tags == ["*"]:
        return None, None
    if len(tags) != 1:
        detail = 'Has to be one ETag in double quotes, or "*".'
        raise InvalidRequest(InvalidParam("invalid", detail, header="If-Match"))

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
        raise InvalidRequest(InvalidParam("invalid", detail, header="Idempotency-Key"))
    return key
