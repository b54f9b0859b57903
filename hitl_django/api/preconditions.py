"""Conditional requests: the ETag of a question, If-Match, If-None-Match and Idempotency-Key."""

from __future__ import annotations

import re
from typing import Any

from django.utils.http import parse_etags
from rest_framework.request import Request

from hitl_django.errors import StaleInterruptError
from hitl_django.models.fields import digest_json
from hitl_django.models.review import ETAG_COLUMNS

from .invalid_params import InvalidParam
from .problems import InvalidRequest

#: One ETag, which may hold commas; Django takes these for what parts several.
_SINGLE_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e]*"')
_ETAG = re.compile(r"(?P<version>\d{1,9})-(?P<digest>[0-9a-f]{32})-[a-z]+-[0-9a-f]{8}")
#: A server that compresses a response makes its ETag weak or, as Apache, adds the encoding to it.
_ENCODED = re.compile(r'(W/)?"?(?P<tag>.*?)(-(gzip|br|deflate|zstd))?"?')
#: What may change of a question without another version of it.
_CHANGING = sorted((*ETAG_COLUMNS, "is_claimed", "is_overdue", "is_snoozed"))
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def build_etag(interrupt: Any) -> str:
    """Return the ETag of a question: what its answer is bound to, and all else that may change."""
    changed = "" if interrupt.changed_at is None else "changed"
    rest = [getattr(interrupt, name) for name in _CHANGING]
    mark = digest_json([str(value) for value in rest])[:8]
    return f'"{interrupt.version}-{interrupt.payload_digest}-{interrupt.status}{changed}-{mark}"'


def is_unchanged(request: Request, interrupt: Any) -> bool:
    """Return whether ``If-None-Match`` names the question as it still is."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    return known == ["*"] or build_etag(interrupt).strip('"') in map(_strip_encoding, known)


def parse_if_match(request: Request) -> tuple[str | None, int | None]:
    """Return the payload digest and row version that ``If-Match`` requires.

    Two Nones without the header or for ``*``. Raises StaleInterruptError for a tag that
    ``build_etag`` never made, which can't be the current one. The status in the tag is not
    compared: that somebody else decided is answered with the decision (409), not as a stale form
    (412).
    """
    header = request.headers.get("If-Match")
    if header is None:
        return None, None

    header = header.strip()
    tags = [header] if _SINGLE_ETAG.fullmatch(header) else parse_etags(header)
    if tags == ["*"]:
        return None, None
    if len(tags) != 1:
        detail = 'Must be a single quoted ETag or "*".'
        raise InvalidRequest(InvalidParam("invalid", detail, header="If-Match"))

    return parse_etag(tags[0])


def parse_etag(tag: str) -> tuple[str, int]:
    """Return the payload digest and row version in one of our ETags, quoted or not, or weak.

    A tag names the version that it is for, so a weak one binds a decision as well as a strong one.
    """
    parsed = _ETAG.fullmatch(_strip_encoding(tag))
    if parsed is None:
        raise StaleInterruptError()
    return parsed["digest"], int(parsed["version"])


def _strip_encoding(tag: str) -> str:
    found = _ENCODED.fullmatch(tag)
    return tag if found is None else found["tag"]


def read_idempotency_key(request: Request) -> str:
    """Return the ``Idempotency-Key``, with or without its double quotes; "" without the header."""
    header = request.headers.get("Idempotency-Key")
    if header is None:
        return ""

    key = header.strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if _KEY.fullmatch(key) is None:
        detail = "Must be 1 to 255 visible ASCII characters."
        raise InvalidRequest(InvalidParam("invalid", detail, header="Idempotency-Key"))
    return key
