"""Validation errors of a request, listed in the member ``errors`` of a problem (RFC 9457)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hitl_django.json_text.json_pointer import escape_part, split_path

#: Maximum number of errors in one response.
MAX_FAULTS = 20

_PART_LENGTH = 200
_INVISIBLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class InvalidParam:
    """One validation error: a stable ``code``, a message and a location.

    The location is a query parameter, a header, or a JSON pointer into the body (``""`` for the
    whole body).
    """

    code: str
    detail: str
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None

    def as_json(self) -> dict[str, str]:
        """Return the error in the format of a response."""
        locations = {"pointer": self.pointer, "parameter": self.parameter, "header": self.header}
        found = {name: location for name, location in locations.items() if location is not None}
        return {**found, "code": self.code, "detail": self.detail}


def list_errors(faults: Iterable[InvalidParam]) -> list[dict[str, str]]:
    """Return the first MAX_FAULTS errors as dicts for a problem response."""
    return [fault.as_json() for fault in islice(faults, MAX_FAULTS)]


def format_pointer(parts: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer.

    Characters that a response can't contain are escaped.
    """
    return "".join(f"/{format_part(part)}" for part in parts)


def format_part(part: str | int) -> str:
    """Return one part of a JSON pointer, escaped and shortened to a maximum length.

    Characters that a response can't contain are also escaped.
    """
    text = str(part)
    if len(text) > _PART_LENGTH:
        text = text[:_PART_LENGTH] + "…"
    return escape_part(_INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def convert_path(path: str, root: str = "") -> str:
    """Convert an engine path (``$.items[0].price``) to a JSON pointer (``/items/0/price``).

    ``$`` stands for the part of the body at ``root``. A path without ``$`` starts with the name of
    a field of the body.
    """
    if not path.startswith("$"):
        return format_pointer(split_path(f"$.{path}"))
    return root + format_pointer(split_path(path))


def flatten_errors(errors: Any, pointer: str = "") -> Iterator[InvalidParam]:
    """Yield each error in a serializer's nested lists and dicts of errors.

    ``pointer`` is the JSON pointer to the part of the body with these errors.
    """
    if isinstance(errors, Mapping):
        for key, inner in errors.items():
            at = pointer if key == "non_field_errors" else f"{pointer}/{format_part(key)}"
            yield from flatten_errors(inner, at)
    elif isinstance(errors, Sequence) and not isinstance(errors, str):
        for index, inner in enumerate(errors):
            at = f"{pointer}/{index}" if isinstance(inner, Mapping) else pointer
            yield from flatten_errors(inner, at)
    else:
        yield InvalidParam(getattr(errors, "code", "invalid"), str(errors), pointer=pointer)


def convert_to_parameter(fault: InvalidParam) -> InvalidParam:
    """Replace the JSON pointer in a serializer's error by the name of the query parameter."""
    name = (fault.pointer or "").removeprefix("/")
    return InvalidParam(fault.code, fault.detail, parameter=name)
