"""Text formats of JSON Schema, checked without other libraries.

A datetime may have no time zone, because pydantic accepts and generates datetimes without a time
zone.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import uuid
from collections.abc import Callable

from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from pydantic_core import SchemaValidator, core_schema
from pydantic_core import ValidationError as UnreadableError

_UNRESERVED = r"[^\s<>\"{}|\\^`%\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}"
_REFERENCE = re.compile(rf"(?:{_UNRESERVED})*+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"-?P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)", re.ASCII
)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", re.ASCII)
_URL = SchemaValidator(core_schema.url_schema())
_EMAIL = EmailValidator()


def is_uri(text: str) -> bool:
    """Return whether a text is an absolute URI, all in ASCII."""
    return text.isascii() and is_iri(text)


def is_iri(text: str) -> bool:
    """Return whether a text is an absolute IRI, i.e. a URI with letters of any script."""
    if not (_SCHEME.match(text) and _REFERENCE.fullmatch(text)):
        return False
    try:
        _URL.validate_python(text)
    except UnreadableError:
        return False
    return True


def is_reference(text: str) -> bool:
    """Return whether a text is an absolute or relative IRI (a URI with letters of any script)."""
    return _REFERENCE.fullmatch(text) is not None


def is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _reads(datetime.date.fromisoformat, text)


def is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _reads(datetime.time.fromisoformat, text.upper())


def is_moment(text: str) -> bool:
    """Return whether a text is a datetime, with or without a time zone."""
    return is_date(text[:10]) and text[10:11] in ("T", "t", " ") and is_time(text[11:])


def is_local_moment(text: str) -> bool:
    """Return whether a text is a datetime without a UTC offset."""
    return is_moment(text) and re.search(r"Z|[+-]", text[11:].upper()) is None


def is_email(text: str) -> bool:
    return _reads(_EMAIL, text)


def is_international_email(text: str) -> bool:
    """Return whether a text is an email address, with letters of any script."""
    name, at, host = text.rpartition("@")
    return bool(at and name) and not re.search(r"[\s@]", name) and is_international_host(host)


def is_host(text: str) -> bool:
    return len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.split("."))


def is_international_host(text: str) -> bool:
    """Return whether a text is a hostname, with letters of any script."""
    if len(text) > 253:
        return False
    try:
        return is_host(text.encode("idna").decode())
    except UnicodeError:
        return False


def is_pointer(text: str) -> bool:
    """Return whether a text is a JSON Pointer."""
    return (not text or text.startswith("/")) and re.search("~(?![01])", text) is None


def is_relative_pointer(text: str) -> bool:
    """Return whether a text is a relative JSON Pointer."""
    found = re.match("(?:0|[1-9][0-9]*+)", text)
    rest = "" if found is None else text[found.end() :]
    return found is not None and (rest == "#" or is_pointer(rest))


def is_duration(text: str) -> bool:
    """Return whether a text is an ISO 8601 duration."""
    return _DURATION.fullmatch(text) is not None


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (ValueError, ValidationError):
        return False
    return True


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and _reads(uuid.UUID, text)


#: The format "regex" is excluded, because its check would compile untrusted input.
CHECKS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "date-time": is_moment,
    "date-time-local": is_local_moment,
    "duration": is_duration,
    "email": is_email,
    "hostname": is_host,
    "idn-email": is_international_email,
    "idn-hostname": is_international_host,
    "ipv4": lambda text: _reads(ipaddress.IPv4Address, text),
    "ipv6": lambda text: "%" not in text and _reads(ipaddress.IPv6Address, text),
    "iri": is_iri,
    "iri-reference": is_reference,
    "json-pointer": is_pointer,
    "relative-json-pointer": is_relative_pointer,
    "time": is_time,
    "uri": is_uri,
    "uri-reference": lambda text: text.isascii() and is_reference(text),
    "uuid": _is_uuid,
}
