"""What is wrong with a request and where, as the ``errors`` of a problem (RFC 9457) list it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hitl_django.json_text.json_pointer import escape_part, split_path

#: Faults named in one answer; the rest would only repeat them.
MAX_FAULTS = 20

_PART_LENGTH = 200
_INVISIBLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class InvalidParam:
    """One thing that is wrong: a stable ``code``, a sentence, and the place.

    The place is a JSON pointer into the body (``""`` is the whole body), or the name of a query
    parameter or of a header.
    """

    code: str
    detail: str
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None

    def as_json(self) -> dict[str, str]:
        """Return the fault as it stands in an answer."""
        locations = {"pointer": self.pointer, "parameter": self.parameter, "header": self.header}
        found = {name: location for name, location in locations.items() if location is not None}
        return {**found, "code": self.code, "detail": self.detail}


def list_errors(faults: Iterable[InvalidParam]) -> list[dict[str, str]]:
    """Return the first faults as a problem lists them."""
    return [fault.as_json() for fault in islice(faults, MAX_FAULTS)]


def format_pointer(parts: Iterable[str | int]) -> str:
    """Write the way to a value as a JSON pointer that is safe to be shown."""
    return "".join(f"/{format_part(part)}" for part in parts)


def format_part(part: str | int) -> str:
    """Write one part of a JSON pointer, shortened where it is long.

    A key that is itself the fault may hold what no answer can carry: it is shown escaped.
    """
    text = str(part)
    if len(text) > _PART_LENGTH:
        text = text[:_PART_LENGTH] + "…"
    return escape_part(_INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def convert_path(path: str, root: str = "") -> str:
    """Turn an engine path (``$.items[0].price``) into a JSON pointer (``/items/0/price``).

    ``$`` stands for the part of the body at ``root``. A path without it starts with the name of
    another argument, which is a field of the body itself.
    """
    if not path.startswith("$"):
        return format_pointer(split_path(f"$.{path}"))
    return root + format_pointer(split_path(path))


def flatten_errors(errors: Any, pointer: str = "") -> Iterator[InvalidParam]:
    """Yield the faults in a DRF serializer's tree of errors."""
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
    """Return the fault of a query's field as that of the parameter of its name."""
    name = (fault.pointer or "").removeprefix("/")
    return InvalidParam(fault.code, fault.detail, parameter=name)
