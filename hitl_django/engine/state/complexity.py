"""Estimation of the number of validator calls that pydantic needs for a value.

pydantic validates a value against each type of a union and uses the best match. If a union contains
itself, as in a condition made of conditions, each level multiplies the work. A value of a few
hundred characters can then block a process for hours. A discriminator (a tagged union) avoids the
problem, because only the named type is validated.

The estimate traverses the value with its JSON schema. For each part of the value and each
matching part of the schema, the number of calls is computed once and cached. If pydantic would
validate this part of the value several times, the cached number is added several times. The
estimate is therefore fast even if the validation would be slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The maximum number of calls. They take about 0.1 s of CPU time for a valid value, and 1 s for an
#: invalid value if each call creates an error.
MAX_CALLS = 100_000
TOO_COMPLEX = (
    "is too complex to validate: a recursive union is tried in full at each level unless "
    "its types have a discriminator; send fewer or less deeply nested values"
)


def is_too_complex(schema: dict[str, Any], value: Any) -> bool:
    """Return whether the validation of a value would need more than MAX_CALLS validator calls."""
    try:
        return _Count(schema).calls(schema, value) > MAX_CALLS
    except RecursionError:
        return True


def contains_itself(schema: dict[str, Any]) -> bool:
    """Return whether a part of a JSON schema refers to itself, directly or indirectly."""
    below = {name: _names(part) for name, part in schema.get("$defs", {}).items()}
    for start in below:
        seen: set[str] = set()
        ahead = list(below[start])
        while ahead:
            name = ahead.pop()
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                ahead += below.get(name, ())
    return False


def _names(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(_names, part))
    if not isinstance(part, dict):
        return set()
    found = set().union(*map(_names, part.values()))
    return found | {_name(part)} if isinstance(part.get("$ref"), str) else found


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


class _Count:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._definitions = schema.get("$defs", {})
        self._known: dict[tuple[int, int], int] = {}

    def calls(self, schema: Any, value: Any) -> int:
        """Return the number of validator calls for ``value`` and its nested parts."""
        # Ids identify the objects reliably, because the containers keep both objects alive.
        key = id(schema), id(value)
        if key not in self._known:
            self._known[key] = 0  # This handles a self-reference in the schema or the value.
            self._known[key] = self._calls(schema, value) if isinstance(schema, dict) else 1
        return self._known[key]

    def _calls(self, schema: dict[str, Any], value: Any) -> int:
        if isinstance(schema.get("$ref"), str):
            return self.calls(self._definitions.get(_name(schema)), value)
        calls = 1 + sum(self.calls(part, value) for part in self._tried(schema, value))
        if isinstance(value, Mapping):
            fields, others = schema.get("properties", {}), schema.get("additionalProperties")
            calls += sum(self.calls(fields.get(name, others), part) for name, part in value.items())
        elif isinstance(value, list | tuple | set | frozenset):
            first, others = schema.get("prefixItems", []), schema.get("items")
            calls += sum(
                self.calls(first[place] if place < len(first) else others, part)
                for place, part in enumerate(value)
            )
        return calls

    def _tried(self, schema: dict[str, Any], value: Any) -> list[Any]:
        discriminator = schema.get("discriminator")
        if not discriminator:
            return [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
        word = value.get(discriminator["propertyName"]) if isinstance(value, Mapping) else None
        named = discriminator.get("mapping", {}).get(word) if isinstance(word, str) else ""
        return [part for part in schema.get("oneOf", ()) if part.get("$ref") == named]
