"""Examples of the OpenAPI components, generated from their schemas."""

from __future__ import annotations

from typing import Any

_FORMATS = {
    "uuid": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "date-time": "2030-01-31T12:00:00Z",
    "uri": "https://example.com/hitl/api/v1/",
}
#: Example values by field name, for fields whose schema has no example.
_NAMES: dict[str, Any] = {
    "by": "Dana K.",
    "code": "invalid",
    "detail": "Must be one of: approve, edit, reject, respond.",
    "graph": "refund",
    "key": "refund:10443",
    "node": "review",
    "resume": {"amount": 5000, "approved": True},
    "value": {"amount": 5000},
    "pointer": "/type",
    "reason": "Half, as agreed.",
    "refusal": "",
    "started_by": "Dana K.",
    "thread_id": "order-10443",
    "title": "Refund 120.00 EUR to Dana K.",
    "version": "1",
    "via": "api",
}


def add_examples(components: dict[str, Any]) -> None:
    """Add an example to each component whose schema is an object or a ``oneOf``."""
    for schema in components.values():
        if (schema.get("type") == "object" or "oneOf" in schema) and "examples" not in schema:
            schema["examples"] = [make_example(schema, components)]


def make_example(schema: dict[str, Any], components: dict[str, Any], name: str = "") -> Any:
    """Return an example value that matches the schema.

    ``name`` is the name of the field.
    """
    if "$ref" in schema:
        return make_example(components[schema["$ref"].rpartition("/")[2]], components)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return make_example(schema[keyword][0], components)
    kind = schema.get("type")
    return _typed(kind[0] if isinstance(kind, list) else kind, schema, components, name)


def _typed(kind: str | None, schema: dict[str, Any], components: dict[str, Any], name: str) -> Any:
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: make_example(inner, components, name) for name, inner in properties.items()}
    if kind == "array":
        return [make_example(schema["items"], components, name)]
    if kind == "string":
        return _FORMATS.get(schema.get("format", "")) or _NAMES.get(name, "text")
    plain: dict[Any, Any] = {"integer": schema.get("minimum", 1), "number": 1.5, "boolean": True}
    return plain.get(kind, _NAMES.get(name))
