"""Validation of response schemas before an interrupt is created."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from referencing import Registry, Specification
from referencing.jsonschema import DRAFT201909, DRAFT202012

from ..errors import GraphDefinitionError
from ..payload import check_json
from .patterns import compile_pattern
from .schema import build_json_schema, check_type

if TYPE_CHECKING:
    from referencing._core import Resolver

#: Reference resolution of draft 2020-12, extended with lists in ``items``.
SPECIFICATION: Specification[Any] = Specification(  # type: ignore[call-arg]
    name="response schema",
    id_of=DRAFT202012.id_of,
    subresources_of=DRAFT201909.subresources_of,
    maybe_in_subresource=DRAFT201909.maybe_in_subresource,
    anchors_in=lambda _, contents: DRAFT202012.anchors_in(contents),
)

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

_SCHEMAS = frozenset(
    {
        "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if",
        "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_MAPPINGS = frozenset(
    {
        "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties",
        "properties",
    }
)  # fmt: skip

#: Keywords whose subschemas apply to the same value as the enclosing schema.
_IN_PLACE = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
_REFERENCES = frozenset({"$dynamicRef", "$ref"})
_REPLACED = {"$recursiveAnchor": "$dynamicAnchor", "$recursiveRef": "$dynamicRef"}


def make_response_schema(schema: Any) -> dict[str, Any]:
    """Return the JSON schema of a response type.

    If ``schema`` is a class, patterns that this package doesn't support are left out of the JSON
    schema, because the class itself validates them.

    Raises:
        GraphDefinitionError: pydantic doesn't support the type, or a part of the schema is not
            supported. The message contains the path of this part.
        PayloadError: the schema isn't plain JSON.
    """
    # Unions and other types are not cached, because equal types may have different schemas.
    if isinstance(schema, type):
        # Parsing the text takes less time than a deep copy.
        found: dict[str, Any] = json.loads(_describe_class(schema))
        return found
    return _describe(schema)


def _describe(schema: Any) -> dict[str, Any]:
    made = build_json_schema(schema)
    if not isinstance(schema, dict):
        try:
            check_type(schema)
        except TypeError as error:
            raise GraphDefinitionError(
                f"The response schema {schema!r} is neither a JSON schema nor a type that pydantic "
                f"can validate: {error}"
            ) from error
        made = _without_patterns(made)
    check_json(made, "The response schema")
    _Check(made).run()
    return made


# pydantic takes longer to describe a class than a worker needs for a short step.
@lru_cache(maxsize=256)
def _describe_class(schema: type) -> str:
    return json.dumps(_describe(schema))


def make_resolver(schema: dict[str, Any]) -> Resolver[Any]:
    """Return a resolver of references within a schema. References to other documents fail."""
    registry: Registry[Any] = Registry()
    return registry.resolver_with_root(SPECIFICATION.create_resource(schema))


def _without_patterns(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: each if key in ("const", "default", "enum", "examples") else _without_patterns(each)
        for key, each in schema.items()
        if not (key == "pattern" and isinstance(each, str) and compile_pattern(each) is None)
    }


def _is_text(rule: Any) -> bool:
    return isinstance(rule, str)


def _is_texts(rule: Any) -> bool:
    return isinstance(rule, list) and all(map(_is_text, rule))


def _is_number(rule: Any) -> bool:
    return isinstance(rule, int | float) and not isinstance(rule, bool)


def _is_count(rule: Any) -> bool:
    return _is_number(rule) and rule >= 0 and rule == int(rule)


def _is_type(rule: Any) -> bool:
    if isinstance(rule, str):
        return rule in TYPES
    return _is_texts(rule) and bool(rule) and TYPES.issuperset(rule)


def _is_lists_of_texts(rule: Any) -> bool:
    return isinstance(rule, dict) and all(map(_is_texts, rule.values()))


#: Maps a keyword to a check of its value, and to a description of valid values.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "$dynamicRef": (_is_text, "a string"),
    "$id": (_is_text, "a string"),
    "$ref": (_is_text, "a string"),
    "dependentRequired": (_is_lists_of_texts, "an object of lists of strings"),
    "enum": (lambda rule: isinstance(rule, list) and bool(rule), "a list that isn't empty"),
    "exclusiveMaximum": (_is_number, "a number"),
    "exclusiveMinimum": (_is_number, "a number"),
    "format": (_is_text, "a string"),
    "maxContains": (_is_count, "a whole number from 0"),
    "maxItems": (_is_count, "a whole number from 0"),
    "maxLength": (_is_count, "a whole number from 0"),
    "maxProperties": (_is_count, "a whole number from 0"),
    "maximum": (_is_number, "a number"),
    "minContains": (_is_count, "a whole number from 0"),
    "minItems": (_is_count, "a whole number from 0"),
    "minLength": (_is_count, "a whole number from 0"),
    "minProperties": (_is_count, "a whole number from 0"),
    "minimum": (_is_number, "a number"),
    "multipleOf": (lambda rule: _is_number(rule) and rule > 0, "a number above 0"),
    "pattern": (_is_text, "a string"),
    "required": (_is_texts, "a list of strings"),
    "type": (_is_type, f"one of {', '.join(sorted(TYPES))}, or a list of them"),
    "uniqueItems": (lambda rule: isinstance(rule, bool), "true or false"),
}


class _Check:
    """A traversal of a schema and all referenced schemas that looks for unsupported parts."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.seen: set[int] = set()
        self.todo: deque[tuple[Any, str, Resolver[Any]]] = deque()
        #: Maps the id of a schema to the ids of the schemas that apply to the same value.
        self.in_place: dict[int, list[int]] = {}
        self.paths: dict[int, str] = {}
        self.keywords: dict[str, str] = {}

    def run(self) -> None:
        self.todo.append((self.root, "", make_resolver(self.root)))
        while self.todo:
            self.visit(*self.todo.popleft())
        if {"patternProperties", "unevaluatedProperties"} <= self.keywords.keys():
            where = self.keywords["unevaluatedProperties"]
            raise _fault(where, "it can't be combined with patternProperties")
        self.find_loop()

    def visit(self, schema: Any, path: str, resolver: Resolver[Any]) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise _fault(path, "it must be an object, true or false")
        if id(schema) in self.seen:
            return
        self.seen.add(id(schema))
        self.paths[id(schema)] = path
        self.in_place[id(schema)] = []
        if schema is not self.root and isinstance(schema.get("$id"), str):
            resolver = resolver.in_subresource(SPECIFICATION.create_resource(schema))
        for keyword, rule in schema.items():
            here = f"{path}/{_escape(keyword)}"
            self.keywords.setdefault(keyword, here)
            self.check_rule(keyword, rule, here, schema)
            for below, where in _list_schemas(keyword, rule, here):
                if keyword in _IN_PLACE:
                    self.in_place[id(schema)].append(id(below))
                self.todo.append((below, where, resolver))
            if keyword in _REFERENCES:
                self.follow(schema, rule, here, resolver)

    def check_rule(self, keyword: str, rule: Any, here: str, schema: dict[str, Any]) -> None:
        if keyword in _REPLACED:
            raise _fault(here, f"{keyword} isn't supported; use {_REPLACED[keyword]}")
        applies, description = _RULES.get(keyword, (None, ""))
        if applies is not None and not applies(rule):
            raise _fault(here, f"it must be {description}")
        patterns = [rule] if keyword == "pattern" else []
        if keyword == "patternProperties" and isinstance(rule, dict):
            patterns = list(rule)
        for pattern in patterns:
            if compile_pattern(pattern) is None:
                raise _fault(
                    here,
                    f"the pattern {pattern!r} can't be applied (backreferences, and lookaround "
                    "other than lookaheads after ^, aren't supported)",
                )
        if keyword == "unevaluatedItems" and isinstance(schema.get("items"), list):
            raise _fault(here, "it can't be combined with a list in items; use prefixItems")

    def follow(self, schema: dict[str, Any], ref: str, here: str, resolver: Resolver[Any]) -> None:
        try:
            found = resolver.lookup(ref)
        except Exception as error:
            raise _fault(here, f"{ref!r} isn't in the schema") from error
        self.in_place[id(schema)].append(id(found.contents))
        self.todo.append((found.contents, here, found.resolver))

    def find_loop(self) -> None:
        """Raise GraphDefinitionError if validation with the schema would never end.

        Validation never ends if a schema, directly or through others, requires that the same value
        is validated again with the schema itself.
        """
        done: set[int] = set()
        for start in self.in_place:
            open_: set[int] = set()
            todo = [(start, False)]
            while todo:
                at, is_left = todo.pop()
                if is_left:
                    open_.discard(at)
                    done.add(at)
                elif at in open_:
                    raise _fault(self.paths[at], "it refers to itself without end")
                elif at not in done:
                    open_.add(at)
                    todo.append((at, True))
                    todo.extend((below, False) for below in self.in_place.get(at, ()))


def _list_schemas(keyword: str, rule: Any, here: str) -> Iterator[tuple[Any, str]]:
    if keyword in _MAPPINGS:
        if not isinstance(rule, dict):
            raise _fault(here, "it must be an object")
        for name, below in rule.items():
            if not (keyword == "dependencies" and _is_texts(below)):
                yield below, f"{here}/{_escape(name)}"
    elif keyword in _LISTS and isinstance(rule, list):
        if not rule and keyword != "items":
            raise _fault(here, "it must not be empty")
        for index, below in enumerate(rule):
            yield below, f"{here}/{index}"
    elif keyword in _SCHEMAS:
        yield rule, here
    elif keyword in _LISTS:
        raise _fault(here, "it must be a list")


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _fault(path: str, reason: str) -> GraphDefinitionError:
    return GraphDefinitionError(
        f"The response schema can't be applied at {path or 'its root'}: {reason}."
    )
