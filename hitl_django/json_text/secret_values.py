"""Redaction of values that a JSON schema declares secret.

A part of a value is secret if its schema has ``"format": "password"`` or ``"writeOnly": true``, as
pydantic generates for SecretStr and SecretBytes. If a branch of a union declares a part secret, the
part is secret, even if another branch matches the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .json_pointer import parse_pointer, read_index

JSON = Any

#: Replaces a secret value for users and API clients.
HIDDEN = "[redacted]"

#: Keywords with one schema for the same value, and keywords with several schemas for the same
#: value.
_SAME = ("if", "then", "else", "not")
_SAME_LISTS = ("allOf", "anyOf", "oneOf")
#: Keywords with a schema for any part of the value.
_PARTS = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems",
          "unevaluatedItems", "contains")  # fmt: skip

_Node = tuple[Mapping[str, JSON], Mapping[str, JSON]]


def is_secret(schema: JSON) -> bool:
    """Return whether a schema itself is declared secret, regardless of its parts."""
    return isinstance(schema, Mapping) and (
        schema.get("format") == "password" or schema.get("writeOnly") is True
    )


def has_secrets(schema: JSON) -> bool:
    """Return whether a schema declares any part of a value secret."""
    left: list[JSON] = [schema]
    while left:
        part = left.pop()
        if isinstance(part, str):
            continue  # Most parts are texts, and checks for Mapping are slow.
        if is_secret(part):
            return True
        if isinstance(part, (Mapping, list, tuple)):
            left += part.values() if isinstance(part, Mapping) else part
    return False


def leads_to_secrets(schema: JSON, root: JSON) -> bool:
    """Return whether a part of a schema declares secrets, or refers to a part that does.

    ``root`` is the whole schema.
    """
    seen: set[int] = set()
    left: list[JSON] = [schema]
    while left:
        part = left.pop()
        if is_secret(part):
            return True
        if isinstance(part, (Mapping, list, tuple)) and id(part) not in seen:
            seen.add(id(part))
            left += part.values() if isinstance(part, Mapping) else part
            left += _find_targets(part, root) if isinstance(part, Mapping) else ()
    return False


def mask_secrets(schema: JSON, value: JSON, hidden: str = HIDDEN) -> JSON:
    """Return a value with each secret part replaced by ``hidden``, except parts that are None.

    The value doesn't have to match the schema. A schema with errors is applied as far as possible.
    """
    return _mask(_open_root(schema), value, hidden) if has_secrets(schema) else value


def mask_patch(schema: JSON, patch: JSON) -> JSON:
    """Return a JSON Patch with its secrets replaced.

    ``schema`` is the schema of the patched value.
    """
    if not patch or not has_secrets(schema):
        return patch
    return [_mask_step(schema, step) for step in patch]


def mask_quotes(schema: JSON, value: JSON, text: str) -> str:
    """Replace secret parts of ``value`` that ``text`` contains, and return the text.

    ``text`` is a message that may quote the value. HIDDEN takes the place of the secret parts.
    """
    if not has_secrets(schema):
        return text
    found: list[JSON] = []
    _mask(_open_root(schema), value, HIDDEN, found)
    quotes: set[str] = set()
    for secret in found:
        quotes |= {str(secret), repr(secret), json.dumps(secret), json.dumps(str(secret))[1:-1]}
        quotes.add(repr(str(secret))[1:-1])
    for quote in sorted(quotes - {"", '""', "''"}, key=len, reverse=True):
        text = text.replace(quote, HIDDEN)
    return text


def list_secret_names(schema: JSON) -> list[str]:
    """Return the names of the properties that a schema declares secret, at any depth."""
    return list(dict.fromkeys(_walk_names(schema, schema)))


def _walk_names(schema: JSON, root: JSON) -> Iterator[str]:
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            nodes = _expand([(part, root)])
            # A list or a mapping of secrets is hidden completely.
            if _are_secret(nodes) or _are_secret(_below(nodes, "")):
                yield str(name)
    parts: Iterable[JSON] = ()
    if isinstance(schema, Mapping):
        parts = schema.values()
    elif isinstance(schema, (list, tuple)):
        parts = schema
    for part in parts:
        yield from _walk_names(part, root)


def _mask_step(schema: JSON, step: Mapping[str, JSON]) -> JSON:
    if "value" not in step:
        return step
    nodes = _open_root(schema)
    for part in parse_pointer(step["path"]):
        if _are_secret(nodes):
            break
        nodes = _below(nodes, part)
    return {**step, "value": _mask(nodes, step["value"], HIDDEN)}


def _mask(
    nodes: Sequence[_Node], value: JSON, hidden: str, found: list[JSON] | None = None
) -> JSON:
    if value is None or not nodes:
        return value
    if _are_secret(nodes):
        if found is not None:
            found.append(value)
        return hidden
    if isinstance(value, Mapping):
        return {
            key: _mask(_below(nodes, str(key)), part, hidden, found) for key, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_mask(_below(nodes, str(at)), part, hidden, found) for at, part in enumerate(value)]
    return value


def _are_secret(nodes: Sequence[_Node]) -> bool:
    return any(is_secret(schema) for schema, _ in nodes)


def _open_root(schema: JSON) -> list[_Node]:
    return _expand([(schema, schema)]) if isinstance(schema, Mapping) else []


def _expand(nodes: Iterable[_Node]) -> list[_Node]:
    """Return the schemas ``nodes``, and all further schemas that apply to the same value.

    The further schemas are the targets of references, and the branches of unions and conditions.
    """
    found: list[_Node] = []
    seen: set[int] = set()
    left: list[tuple[JSON, Mapping[str, JSON]]] = list(nodes)
    while left:
        schema, root = left.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        # A subschema with an id is the base of its references.
        root = schema if isinstance(schema.get("$id"), str) else root
        found.append((schema, root))
        left += [(target, root) for target in _find_targets(schema, root)]
        left += [(schema[key], root) for key in _SAME if key in schema]
        for key in _SAME_LISTS:
            if isinstance(branches := schema.get(key), (list, tuple)):
                left += [(branch, root) for branch in branches]
        if isinstance(dependent := schema.get("dependentSchemas"), Mapping):
            left += [(branch, root) for branch in dependent.values()]
    return found


def _find_targets(schema: Mapping[str, JSON], root: Mapping[str, JSON]) -> Iterator[JSON]:
    for key in ("$ref", "$dynamicRef"):
        reference = schema.get(key)
        if not isinstance(reference, str) or not reference.startswith("#"):
            continue
        target: JSON = root
        for part in parse_pointer(reference[1:]):
            if isinstance(target, (list, tuple)):
                target = next(iter(_find_items(target, part)), None)
            else:
                target = target.get(part) if isinstance(target, Mapping) else None
        if isinstance(target, Mapping):
            yield target


def _below(nodes: Sequence[_Node], part: str) -> list[_Node]:
    """Return the schemas for the member or item ``part`` of a value.

    ``nodes`` are the schemas for the value itself.
    """
    found: list[_Node] = []
    for schema, root in nodes:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and part in properties:
            found.append((properties[part], root))
        else:
            found += [(schema[key], root) for key in _PARTS if key in schema]
        if isinstance(patterns := schema.get("patternProperties"), Mapping):
            found += [(each, root) for each in patterns.values()]
        for key in ("prefixItems", "items"):
            if isinstance(items := schema.get(key), (list, tuple)):
                found += [(each, root) for each in _find_items(items, part)]
    return _expand(found)


def _find_items(items: Sequence[JSON], part: str) -> Sequence[JSON]:
    """Return a list with the item at the index ``part``, or an empty list without such an item."""
    index = read_index(part)
    return () if index is None else items[index : index + 1]
