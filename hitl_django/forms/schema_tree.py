"""The schema tree: a simplified form of a JSON schema or payload, used to build forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal

from hitl_django.engine.payload import LOCAL_DATETIME
from hitl_django.engine.state.patterns import compile_pattern
from hitl_django.graph_registry.display_hints import Hint, Names
from hitl_django.json_text.json_pointer import escape_part, parse_pointer
from hitl_django.json_text.reasons import ValidationMessage, describe_limits
from hitl_django.json_text.secret_values import is_secret, leads_to_secrets

JSON = Any

Kind = Literal[
    "boolean",
    "choice",
    "choices",
    "const",
    "date",
    "datetime",
    "decimal",
    "integer",
    "json",
    "lines",
    "number",
    "object",
    "rows",
    "text",
    "time",
    "union",
    "uuid",
]

#: Objects nested deeper, and parts of larger forms, are edited as JSON text. Django accepts a
#: thousand fields per form.
MAX_DEPTH = 5
MAX_FIELDS = 200

FORMATS: dict[str, Kind] = {
    "date": "date",
    "date-time": "datetime",
    LOCAL_DATETIME: "datetime",
    "time": "time",
    "uuid": "uuid",
}


class NoValue(Enum):
    """The type of MISSING, which marks a missing value. A missing value differs from null."""

    MISSING = "missing"

    def __bool__(self) -> bool:
        return False


MISSING: Final = NoValue.MISSING


@dataclass(frozen=True)
class Property:
    """One property of an object, with its name and its node."""

    name: str
    shape: SchemaNode
    required: bool


@dataclass(frozen=True)
class SchemaNode:
    """The kind of a value (such as "object", "rows" or "text"), and its display settings.

    - ``options`` are the values of a choice, and ``labels`` are their names, if they have names.
    - ``items`` is the node of a list's lines or rows.
    - ``alternatives`` are the nodes of a union, distinguished by the member ``discriminator``.
    - ``spelling`` lists the JSON types allowed for a decimal (number, string).
    - With ``takes_text``, input that isn't valid JSON is text.
    - ``limits`` are only displayed. The response is validated against its schema.
    - ``display`` is the display format on the request page.
    - ``is_naive`` marks a datetime without a time zone.
    - A ``secret`` value has a password input and is never displayed.
    - ``refuses_empty`` marks a text that the schema doesn't allow to be empty.
    """

    kind: Kind
    title: str = ""
    description: str = ""
    nullable: bool = False
    options: tuple[JSON, ...] = ()
    properties: tuple[Property, ...] = ()
    items: SchemaNode | None = None
    spelling: tuple[str, ...] = ()
    long: bool = False
    limits: tuple[ValidationMessage, ...] = ()
    labels: tuple[str, ...] = ()
    alternatives: tuple[SchemaNode, ...] = ()
    discriminator: str | None = None
    takes_text: bool = False
    display: str = ""
    is_naive: bool = False
    secret: bool = False
    refuses_empty: bool = False

    def without(self, name: str) -> SchemaNode:
        """Return a copy of an object node without one property."""
        return replace(self, properties=tuple(p for p in self.properties if p.name != name))

    def restrict_to(self, pointers: Sequence[str], path: str = "") -> SchemaNode:
        """Return a copy with only the members at or below the JSON pointers.

        Objects that contain such a member are also kept. If this node is only a part of the
        document to which the pointers refer, ``path`` is the pointer to this part.
        """
        if self.kind != "object":
            return self
        kept = []
        for prop in self.properties:
            here = f"{path}/{escape_part(prop.name)}"
            if any(here == way or here.startswith(f"{way}/") for way in pointers):
                kept.append(prop)
            elif any(way.startswith(f"{here}/") for way in pointers) and prop.shape.properties:
                kept.append(replace(prop, shape=prop.shape.restrict_to(pointers, here)))
        return replace(self, properties=tuple(kept))

    def conceal(self) -> SchemaNode:
        """Return a copy in which all fields are secret. A list becomes one field for JSON text."""
        kind = "json" if self.kind in ("boolean", "choice", "choices") else self.kind
        return replace(
            self,
            kind=kind,
            secret=True,
            takes_text=kind != self.kind or self.takes_text,
            properties=tuple(replace(p, shape=p.shape.conceal()) for p in self.properties),
            items=self.items and self.items.conceal(),
            alternatives=tuple(each.conceal() for each in self.alternatives),
        )

    def leaves(self) -> Iterator[SchemaNode]:
        """Yield all nodes that have a form field."""
        if self.kind != "object":
            yield self
        for shape in (*(prop.shape for prop in self.properties), *self.alternatives):
            yield from shape.leaves()

    def is_flat(self) -> bool:
        """Return whether this is an object whose members are all short enough for a table row."""
        large = ("choices", "json", "object", "rows", "union")
        members = [prop.shape for prop in self.properties]
        return self.kind == "object" and not any(m.kind in large or m.long for m in members)

    def holds(self, value: JSON) -> bool:
        """Return whether a value has the node's JSON type.

        If the node is for a constant or a choice, the value must equal one of its options.
        """
        if value is None and self.nullable:
            return True
        match self.kind:
            case "const" | "choice":
                return any(_is_same(value, option) for option in self.options)
            case "boolean":
                return isinstance(value, bool)
            case "integer":
                return isinstance(value, int) and not isinstance(value, bool)
            case "number":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "text" | "date" | "datetime" | "time" | "uuid":
                return isinstance(value, str)
            case "decimal":
                return isinstance(value, int | float | str) and not isinstance(value, bool)
            case "lines" | "choices" | "rows":
                assert self.items is not None
                return isinstance(value, list) and all(map(self.items.holds, value))
            case "object":
                return isinstance(value, dict) and all(
                    prop.shape.holds(value[prop.name]) if prop.name in value else not prop.required
                    for prop in self.properties
                )
            case "union":
                return any(alternative.holds(value) for alternative in self.alternatives)
        return True


def read_shape(schema: JSON) -> SchemaNode:
    """Convert a JSON schema (draft 2020-12, as generated by pydantic) to a schema tree.

    Unsupported parts become ``json`` nodes, so every schema has a form.
    """
    shape = _Reader(schema).read(schema)
    return _bounded(shape)


def infer_shape(
    payload: JSON, formats: Mapping[str, str] | None = None, pointer: str = ""
) -> SchemaNode:
    """Derive a schema tree from a payload without a schema.

    ``formats`` are the formats of texts by JSON pointer. If ``payload`` is only a part of the
    document to which these pointers refer, ``pointer`` is the pointer to this part.
    """
    return _bounded(_infer(payload, formats or {}, pointer, depth=0))


def _bounded(shape: SchemaNode) -> SchemaNode:
    if sum(1 for _ in shape.leaves()) > MAX_FIELDS:
        secret = any(leaf.secret for leaf in shape.leaves())
        return replace(shape, kind="json", properties=(), alternatives=(), secret=secret)
    return shape


def list_hints(shape: SchemaNode) -> dict[Names, Hint]:
    """Return the display hints in a schema. Each key is the path to a value, as member names."""
    found: dict[Names, Hint] = {}
    _collect_hints(shape, (), found)
    return found


def _collect_hints(shape: SchemaNode, names: Names, found: dict[Names, Hint]) -> None:
    if shape.display:
        try:
            found[names] = Hint.parse(shape.display)
        except ValueError:
            pass  # The schema's format is meant for other programs.
    elif shape.kind in ("date", "datetime"):
        found[names] = Hint("date")
    for prop in shape.properties:
        _collect_hints(prop.shape, (*names, prop.name), found)
    for below in (shape.items, *shape.alternatives):
        if below is not None:
            _collect_hints(below, names, found)


class _Reader:
    def __init__(self, root: JSON) -> None:
        self.root = root

    def read(
        self, schema: JSON, *, depth: int = 0, seen: frozenset[str] = frozenset()
    ) -> SchemaNode:
        if not isinstance(schema, dict):
            return SchemaNode("json", takes_text=schema is True)
        schema, nullable, seen = self.resolve(schema, seen)
        known = SchemaNode(
            "json",
            title=_text(schema.get("title")),
            description=_text(schema.get("description")),
            nullable=nullable,
            limits=tuple(describe_limits(schema)),
            takes_text=_takes_text(schema),
            display=_text(schema.get("display")),
        )
        shape = self.classify(schema, known, depth, seen)
        # JSON text and lines would display their secret parts.
        is_whole = shape.kind in ("json", "lines", "choices")
        if is_secret(schema) or (is_whole and leads_to_secrets(schema, self.root)):
            return shape.conceal()
        return shape

    def classify(
        self, schema: dict[str, JSON], known: SchemaNode, depth: int, seen: frozenset[str]
    ) -> SchemaNode:
        if "const" in schema:
            return replace(known, kind="const", options=(schema["const"],))
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return _choice(schema["enum"], known)
        if decimal := _find_decimal_spelling(schema):
            number = next(part for part in schema["anyOf"] if part.get("type") == "number")
            limits = tuple(describe_limits(number))
            return replace(known, kind="decimal", spelling=decimal, limits=limits)
        if parts := _parts(schema):
            return self.union(schema, parts, known, depth, seen)
        kind = schema.get("type")
        if kind == "string":
            return _string(schema, known)
        if kind == "null":
            return replace(known, kind="const", options=(None,))
        if kind in ("integer", "number", "boolean"):
            return replace(known, kind=kind)
        if kind == "array":
            return self.array(schema, known, depth, seen)
        if kind == "object" and schema.get("properties") and depth < MAX_DEPTH:
            return self.object(schema, known, depth, seen)
        return known

    def union(
        self,
        schema: dict[str, JSON],
        parts: list[dict[str, JSON]],
        known: SchemaNode,
        depth: int,
        seen: frozenset[str],
    ) -> SchemaNode:
        if depth >= MAX_DEPTH:
            return known
        read = [self.alternative(part, depth, seen) for part in parts]
        if any(alternative.nullable or alternative.kind == "union" for alternative in read):
            return known
        if all(alternative.kind == "const" for alternative in read):
            return _choice_of(read, known)
        if all(alternative.kind == "json" for alternative in read):
            return known
        name = _discriminator(schema, read)
        return replace(
            known,
            kind="union",
            alternatives=tuple(_with_constant(alternative, name) for alternative in read),
            discriminator=name,
        )

    def alternative(self, part: dict[str, JSON], depth: int, seen: frozenset[str]) -> SchemaNode:
        """Return the node for an alternative of a union, labelled with the title in the schema."""
        read = self.read(part, depth=depth + 1, seen=seen)
        target = self.find(part["$ref"]) if isinstance(part.get("$ref"), str) else None
        return (
            read
            if read.title or target is None
            else replace(read, title=_text(target.get("title")))
        )

    def resolve(
        self, schema: dict[str, JSON], seen: frozenset[str]
    ) -> tuple[dict[str, JSON], bool, frozenset[str]]:
        """Resolve the references in a schema, and remove null from its types and unions.

        Return the resulting schema, whether null was allowed, and the references already followed.
        """
        nullable = False
        # Each iteration either follows a new reference or removes a wrapper, so the loop ends. A
        # recursive reference remains and becomes JSON text.
        while True:
            if isinstance(ref := schema.get("$ref"), str):
                target = self.find(ref)
                if ref in seen or target is None:
                    return {**_words(schema), "$ref": ref}, nullable, seen
                seen |= {ref}
                # A model's title names the model, not the field.
                target = {k: v for k, v in target.items() if k != "title"}
                schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
            elif found := _only_part(schema):
                part, null = found
                nullable |= null
                schema = {**part, **_words(schema)}
            elif isinstance(schema.get("type"), list):
                types = [kind for kind in schema["type"] if kind != "null"]
                nullable |= len(types) < len(schema["type"])
                rest = {k: v for k, v in schema.items() if k != "type"}
                if len(types) == 1:
                    schema = {**rest, "type": types[0]}
                elif rest.keys() <= {"title", "description", "display"} and types:
                    schema = {**rest, "anyOf": [{"type": kind} for kind in types]}
                else:
                    schema = rest
            else:
                return self.drop_null(schema, nullable, seen)

    def drop_null(
        self, schema: dict[str, JSON], nullable: bool, seen: frozenset[str]
    ) -> tuple[dict[str, JSON], bool, frozenset[str]]:
        for key in ("anyOf", "oneOf"):
            parts = schema.get(key)
            if isinstance(parts, list) and {"type": "null"} in parts:
                parts = [part for part in parts if part != {"type": "null"}]
                return {**schema, key: parts}, True, seen
        return schema, nullable, seen

    def find(self, ref: str) -> dict[str, JSON] | None:
        """Return the part of the schema to which a reference refers.

        Return None if the reference points outside the schema or to a part that doesn't exist.
        """
        if not ref.startswith("#"):
            return None
        found = self.root
        for key in parse_pointer(ref[1:]):
            if not isinstance(found, dict) or key not in found:
                return None
            found = found[key]
        return found if isinstance(found, dict) else None

    def array(
        self, schema: dict[str, JSON], known: SchemaNode, depth: int, seen: frozenset[str]
    ) -> SchemaNode:
        if "items" not in schema or "prefixItems" in schema:
            return known
        items = self.read(schema["items"], depth=depth + 1, seen=seen)
        if items.nullable:
            return known
        if items.kind == "choice" and schema.get("uniqueItems"):
            chosen = replace(known, kind="choices", options=items.options, items=items)
            return _add_null(chosen)
        if items.kind in ("text", "integer", "number", "decimal", "choice"):
            return replace(known, kind="lines", items=items)
        return _rows_of(items, known)

    def object(
        self, schema: dict[str, JSON], known: SchemaNode, depth: int, seen: frozenset[str]
    ) -> SchemaNode:
        properties, required = schema["properties"], schema.get("required", ())
        if not isinstance(properties, dict) or not isinstance(required, list | tuple):
            return known
        return replace(
            known,
            kind="object",
            properties=tuple(
                Property(name, self.read(part, depth=depth + 1, seen=seen), name in required)
                for name, part in properties.items()
            ),
        )


def _rows_of(items: SchemaNode, known: SchemaNode) -> SchemaNode:
    """Return a copy of the list node ``known`` that shows one row per object in the list.

    ``items`` is the node of the objects. Return ``known`` unchanged if ``items`` doesn't describe
    objects, or describes objects that contain lists of objects.
    """
    shapes = items.alternatives if items.kind == "union" else (items,)
    if not all(shape.kind == "object" and shape.properties for shape in shapes):
        return known
    if any(leaf.kind == "rows" for leaf in items.leaves()):
        return known
    return replace(known, kind="rows", items=items)


def _parts(schema: dict[str, JSON]) -> list[dict[str, JSON]]:
    """Return the alternatives of a schema that consists only of a union.

    Returns an empty list for any other schema.
    """
    keys = schema.keys() & {"anyOf", "oneOf"}
    if len(keys) != 1 or not schema.keys().isdisjoint({"type", "properties", "allOf", "not"}):
        return []
    parts = schema[keys.pop()]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return []
    return parts if len(parts) > 1 else []


def _choice_of(read: list[SchemaNode], known: SchemaNode) -> SchemaNode:
    options = tuple(alternative.options[0] for alternative in read)
    if any(isinstance(option, dict | list) or option is None for option in options):
        return known
    labels = tuple(alternative.title or to_label(alternative.options[0]) for alternative in read)
    return replace(known, kind="choice", options=options, labels=labels)


def to_label(value: JSON) -> str:
    """Return the label of a constant that has no name."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _discriminator(schema: dict[str, JSON], read: list[SchemaNode]) -> str | None:
    """Return the name of the member whose constant is different in each alternative of a union.

    ``read`` are the nodes of the alternatives. If the schema declares a discriminator, only this
    member is considered. Return None if no member is suitable.
    """
    constants = []
    for alternative in read:
        found = {p.name: to_label(p.shape.options[0]) for p in alternative.properties
                 if p.shape.kind == "const"}  # fmt: skip
        constants.append(found)
    named = schema.get("discriminator")
    wanted = named.get("propertyName") if isinstance(named, dict) else None
    for name in constants[0]:
        values = {found.get(name) for found in constants}
        if None not in values and len(values) == len(read) and wanted in (None, name):
            return name
    return None


def _with_constant(alternative: SchemaNode, name: str | None) -> SchemaNode:
    """Return a copy of an alternative in which the member ``name`` is required.

    If the title of the alternative is only the name of a class, the title is replaced by the
    constant value of the member.
    """
    title = alternative.title
    if title.isidentifier():
        title = _split_class_name(title)
        for prop in alternative.properties:
            if prop.name == name:
                title = to_label(prop.shape.options[0]).replace("_", " ").capitalize()
    properties = tuple(
        replace(prop, required=True) if prop.name == name else prop
        for prop in alternative.properties
    )
    return replace(alternative, properties=properties, title=title)


def _add_null(shape: SchemaNode) -> SchemaNode:
    """Return a union in which null is a separate choice, for a node that allows null.

    A node that doesn't allow null is returned unchanged. Use this function for values whose empty
    input already has another meaning, such as an empty text.
    """
    if not shape.nullable:
        return shape
    plain = replace(shape, nullable=False, title="", description="")
    return replace(shape, kind="union", alternatives=(plain,), options=(), items=None)


def _takes_text(schema: dict[str, JSON]) -> bool:
    """Return whether a value that is edited as JSON text may be a string."""
    kinds = schema.get("type")
    if kinds is not None:
        return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    for key in ("anyOf", "oneOf"):
        parts = schema.get(key)
        if isinstance(parts, list):
            return any(isinstance(part, dict) and _takes_text(part) for part in parts)
    return schema.keys().isdisjoint({"$ref", "const", "enum", "not", "properties", "allOf"})


def _split_class_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).capitalize()


def _is_same(one: JSON, other: JSON) -> bool:
    # In JSON, true differs from 1, but in Python both are equal.
    return type(one) is type(other) and bool(one == other)


def _only_part(schema: dict[str, JSON]) -> tuple[dict[str, JSON], bool] | None:
    """Return the only non-null part of an anyOf, oneOf or allOf, and whether null is allowed.

    Return None if there are several non-null parts. Also return None if the schema itself declares
    a type, because the part then only restricts this type.
    """
    if not schema.keys().isdisjoint({"type", "properties", "enum", "const"}):
        return None
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            continue
        real = [part for part in parts if part.get("type") != "null"]
        if len(real) == 1 and (key != "allOf" or len(parts) == 1):
            return real[0], len(real) < len(parts)
    return None


def _words(schema: dict[str, JSON]) -> dict[str, JSON]:
    return {
        key: schema[key]
        for key in ("title", "description", "display", "writeOnly")
        if key in schema
    }


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _choice(options: list[JSON], known: SchemaNode) -> SchemaNode:
    nullable = known.nullable or None in options
    real = tuple(option for option in options if option is not None)
    if any(isinstance(option, dict | list) for option in real):
        return known
    return replace(known, kind="choice", options=real, nullable=nullable)


def _find_decimal_spelling(schema: dict[str, JSON]) -> tuple[str, ...]:
    """Return ("number", "string") if pydantic generated the schema for a Decimal.

    Return an empty tuple for any other schema.
    """
    parts = schema.get("anyOf")
    if not isinstance(parts, list) or len(parts) != 2:
        return ()
    kinds = {part.get("type") for part in parts if isinstance(part, dict)}
    if kinds != {"number", "string"} or any("enum" in part or "const" in part for part in parts):
        return ()
    return ("number", "string")


def _string(schema: dict[str, JSON], known: SchemaNode) -> SchemaNode:
    kind = FORMATS.get(str(schema.get("format", "")))
    if kind:
        return replace(known, kind=kind, is_naive=schema["format"] == LOCAL_DATETIME)
    if str(schema.get("pattern", "")).startswith("^(?!^[-+.]*$)"):
        # This is a Decimal in a schema generated for serialization.
        return replace(known, kind="decimal", spelling=("string",))
    longest = schema.get("maxLength")
    long = (isinstance(longest, int) and longest > 255) or str(
        schema.get("contentMediaType", "")
    ).startswith("text/")
    return replace(known, kind="text", long=long, refuses_empty=_refuses_empty(schema))


def _refuses_empty(schema: dict[str, JSON]) -> bool:
    shortest, pattern = schema.get("minLength"), schema.get("pattern")
    if isinstance(shortest, int | float) and shortest > 0:
        return True
    compiled = compile_pattern(pattern) if isinstance(pattern, str) else None
    return compiled is not None and not compiled.matches("")


def _infer(value: JSON, formats: Mapping[str, str], pointer: str, *, depth: int) -> SchemaNode:
    if isinstance(value, bool):
        return SchemaNode("boolean")
    if isinstance(value, int | float):
        # A reviewer may change 120 to 99.50, so integers allow decimals.
        return SchemaNode("number")
    if isinstance(value, str):
        return _infer_text(formats.get(pointer, ""))
    if value is None:
        return SchemaNode("text", nullable=True)
    if isinstance(value, dict) and value and depth < MAX_DEPTH:
        return SchemaNode(
            "object",
            properties=tuple(
                Property(
                    key,
                    _infer(item, formats, f"{pointer}/{escape_part(key)}", depth=depth + 1),
                    required=True,
                )
                for key, item in value.items()
            ),
        )
    if isinstance(value, list) and value:
        return _infer_list(value, formats, pointer, depth=depth)
    return SchemaNode("json")


def _infer_text(format_: str) -> SchemaNode:
    if format_ == "decimal":
        return SchemaNode("decimal", spelling=("string",))
    return SchemaNode(FORMATS.get(format_, "text"), is_naive=format_ == LOCAL_DATETIME)


def _infer_list(
    values: list[JSON], formats: Mapping[str, str], pointer: str, *, depth: int
) -> SchemaNode:
    if all(isinstance(value, dict) and value for value in values):
        return _infer_rows(values, formats, pointer, depth=depth)
    kinds = {_infer(value, {}, "", depth=MAX_DEPTH) for value in values}
    only = kinds.pop()
    if kinds or only.nullable or only.kind not in ("text", "number"):
        return SchemaNode("json")
    return SchemaNode("lines", items=only)


def _infer_rows(
    values: list[dict[str, JSON]], formats: Mapping[str, str], pointer: str, *, depth: int
) -> SchemaNode:
    """Return a node that shows a list of objects as rows, or as JSON text.

    The list is shown as rows if all objects have the same structure.
    """
    shapes = {
        _infer(value, formats, f"{pointer}/{index}", depth=depth + 1)
        for index, value in enumerate(values)
    }
    if len(shapes) == 1 and depth < MAX_DEPTH:
        return _rows_of(shapes.pop(), SchemaNode("json"))
    return SchemaNode("json")
