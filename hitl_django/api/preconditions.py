"""Conditional requests, with the headers If-Match, If-None-Match and Idempotency-Key."""

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

#: Pattern of one ETag. An ETag may contain commas, but Django treats a comma as a separator.
_SINGLE_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e]*"')
_ETAG = re.compile(r"(?P<version>\d{1,9})-(?P<digest>[0-9a-f]{32})-[a-z]+-[0-9a-f]{8}")
#: A server that compresses a response makes its ETag weak or, like Apache, appends the encoding to
#: it.
_ENCODED = re.compile(r'(W/)?"?(?P<tag>.*?)(-(gzip|br|deflate|zstd))?"?')
#: Columns and annotations that may change without a new version of the interrupt.
_CHANGING = sorted((*ETAG_COLUMNS, "is_claimed", "is_overdue", "is_snoozed"))
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def build_etag(interrupt: Any) -> str:
    """Return the ETag of an interrupt.

    The ETag contains the version, the payload digest, the status, and a digest of all other fields
    that may change. With ``If-Match``, a decision requires this version and payload digest.
    """
    changed = "" if interrupt.changed_at is None else "changed"
    rest = [*(getattr(interrupt, name) for name in _CHANGING), interrupt.resumes_at]
    mark = digest_json([str(value) for value in rest])[:8]
    return f'"{interrupt.version}-{interrupt.payload_digest}-{interrupt.status}{changed}-{mark}"'


def is_unchanged(request: Request, interrupt: Any) -> bool:
    """Return whether ``If-None-Match`` contains the interrupt's current ETag."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    return known == ["*"] or build_etag(interrupt).strip('"') in map(_strip_encoding, known)


def parse_if_match(request: Request) -> tuple[str | None, int | None]:
    """Return the payload digest and row version required by ``If-Match``.

    Both values are None without the header or for ``*``. The ETag also contains the interrupt's
    status, which is ignored here. If the interrupt was closed in the meantime, the client therefore
    receives the decision with HTTP status 409, instead of HTTP status 412.

    Raises:
        InvalidRequest: if the header is neither a single ETag nor ``*``.
        StaleInterruptError: if the tag doesn't have the format of ``build_etag``.
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
    """Return the payload digest and row version in an ETag.

    The ETag may be quoted or weak. A weak ETag is accepted like a strong ETag, because both contain
    the digest and the version.
    """
    parsed = _ETAG.fullmatch(_strip_encoding(tag))
    if parsed is None:
        raise StaleInterruptError()
    return parsed["digest"], int(parsed["version"])


def _strip_encoding(tag: str) -> str:
    found = _ENCODED.fullmatch(tag)
    return tag if found is None else found["tag"]


def read_run_key(request: Request, body: dict[str, Any]) -> None:
    """Copy the header ``Idempotency-Key``, if present, to the member ``key`` of a run's body.

    Raises:
        InvalidRequest: if the body contains a different key.
    """
    key = read_idempotency_key(request)
    if key and body.setdefault("key", key) != key:
        detail = "Conflicts with the key in the body. Send only one of them."
        raise InvalidRequest(InvalidParam("invalid", detail, header="Idempotency-Key"))


def read_idempotency_key(request: Request) -> str:
    """Return the header ``Idempotency-Key``, or "" if it is missing.

    Double quotes around the key are removed.

    Raises:
        InvalidRequest: if the key doesn't consist of 1 to 255 visible ASCII characters.
    """
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
