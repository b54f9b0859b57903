"""What is wrong with a request, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Faults named in one answer; the rest would only repeat them.
SHOWN = 20

_TOKEN_LENGTH = 200
_INVISIBLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_STEP = re.compile(r"\[(\d+)\]|\.([^.\[]+)")


@dataclass(frozen=True, slots=True)
class Fault:
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
        places = {"pointer": self.pointer, "parameter": self.parameter, "header": self.header}
        found = {name: place for name, place in places.items() if place is not None}
        return {**found, "code": self.code, "detail": self.detail}


def as_json(faults: Iterable[Fault]) -> list[dict[str, str]]:
    """Return the first faults as they stand in an answer."""
    return [fault.as_json() for fault, _ in zip(faults, range(SHOWN), strict=False)]


def token(key: str | int) -> str:
    """Return one step of a JSON pointer (RFC 6901), safe to be written out.

    A key that is itself the fault may hold what no answer can carry: it is shown escaped.
    """
    text = str(key)
    if len(text) > _TOKEN_LENGTH:
        text = text[:_TOKEN_LENGTH] + "…"
    visible = _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return visible.replace("~", "~0").replace("/", "~1")


def pointer_of(path: str, root: str = "") -> str:
    """Turn an engine path (``$.items[0].price``) into a JSON pointer (``/items/0/price``).

    ``$`` stands for the part of the body at ``root``. A path without it is the name of another
    argument, which is a field of the body itself.
    """
    if not path.startswith("$"):
        return f"/{token(path)}"
    steps = _STEP.findall(path)
    return root + "".join(f"/{token(index or name)}" for index, name in steps)


def from_serializer(errors: Any, pointer: str = "") -> Iterator[Fault]:
    """Yield the faults in a DRF serializer's tree of errors."""
    if isinstance(errors, Mapping):
        for key, inner in errors.items():
            at = pointer if key == "non_field_errors" else f"{pointer}/{token(key)}"
            yield from from_serializer(inner, at)
    elif isinstance(errors, Sequence) and not isinstance(errors, str):
        for index, inner in enumerate(errors):
            at = f"{pointer}/{index}" if isinstance(inner, Mapping) else pointer
            yield from from_serializer(inner, at)
    else:
        yield Fault(getattr(errors, "code", "invalid"), str(errors), pointer=pointer)


def by_name(fault: Fault) -> Fault:
    """Return the fault of a query's field as that of the parameter of its name."""
    name = (fault.pointer or "").removeprefix("/")
    return Fault(fault.code, fault.detail, parameter=name)
