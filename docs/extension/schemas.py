"""Tables of JSON schemas in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import markdown

Schema = Mapping[str, Any]

_REFERENCE = "#/components/schemas/"
#: Text for limits of a value.
_BOUNDS = {
    "minimum": "from {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "to {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "maxProperties": "at most {} fields",
}


def label_of(name: str) -> str:
    """Return the label of a schema's section."""
    return f"http-schema-{name.lower()}"


def is_problem(name: str) -> bool:
    """Return whether the schema is that of a problem, which is documented with the errors."""
    return name.endswith("Problem")


def type_of(schema: Schema) -> str:
    """Return the type of a value as text, linked if it has a section of its own."""
    if reference := schema.get("$ref"):
        name = reference.removeprefix(_REFERENCE)
        return f"[{name}](#{label_of(name)})"
    for alternatives in ("oneOf", "anyOf"):
        if alternatives in schema:
            return " or ".join(dict.fromkeys(map(type_of, schema[alternatives])))
    if "allOf" in schema:
        return " and ".join(map(type_of, schema["allOf"]))
    if "const" in schema:
        return markdown.code(schema["const"])
    if "enum" in schema:
        return " or ".join(map(markdown.code, schema["enum"]))
    return _plain_type(schema)


def _plain_type(schema: Schema) -> str:
    types = schema.get("type", "any JSON value")
    names = [types] if isinstance(types, str) else list(types)
    text = " or ".join(names)
    if "array" in names and schema.get("items"):
        text = text.replace("array", f"array of {type_of(schema['items'])}")
    if schema.get("format"):
        text += f" ({schema['format']})"
    return text


def bounds_of(schema: Schema) -> str:
    """Return the limits of a value as text; empty if there are none."""
    found = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
    if "default" in schema:
        found.append(f"default {markdown.code(schema['default'])}")
    return ", ".join(found)


def described(schema: Schema, about: str = "") -> str:
    """Return the description of a value with its limits."""
    sentences = [about or schema.get("description", ""), bounds_of(schema)]
    return " ".join(_sentence(text) for text in sentences if text)


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def fields_of(schema: Schema) -> Iterator[list[str]]:
    """Yield a table row for each member of an object."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        always = "" if name in required else "yes"
        yield [markdown.code(name), type_of(member), always, described(member)]


def section(name: str, schema: Schema) -> str:
    """Return the section of a schema."""
    rows = list(fields_of(schema))
    return markdown.page(
        [
            markdown.target(label_of(name), name, 3),
            schema.get("description", ""),
            markdown.table(["field", "type", "optional", "description"], rows)
            if rows
            else f"{markdown.code(name)} has the type {type_of(schema)}.",
        ]
    )
